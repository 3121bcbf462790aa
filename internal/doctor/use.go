package doctor

import (
	"strings"

	"github.com/belfry-dev/belfry/internal/problem"
)

var useChecks = []check{
	{"use", "workers", false, (*Facts).workers},
	{"use", "paused", false, (*Facts).paused},
	{"use", "keys", false, (*Facts).keys},
}

func (f *Facts) workers() verdict {
	if q := f.Cluster.Starved; len(q) > 0 {
		return warn("Start a worker for each of them.",
			"due runs wait and no worker asks for them, in queues: %s", strings.Join(q, ", "))
	}
	return ok("no queue waits for a worker")
}

func (f *Facts) paused() verdict {
	c := f.Cluster
	if c.PausedJobs == 0 && len(c.PausedQueues) == 0 {
		return ok("nothing has been paused for more than 7 days")
	}
	text := ""
	if len(c.PausedQueues) > 0 {
		text = "queues " + strings.Join(c.PausedQueues, ", ")
	}
	if c.PausedJobs > 0 {
		if text != "" {
			text += " and "
		}
		text += problem.Count(c.PausedJobs, "job")
	}
	return warn("Resume or delete them.", "paused for more than 7 days: %s", text)
}

func (f *Facts) keys() verdict {
	if k := f.Cluster.ExpiringKeys; len(k) > 0 {
		return warn("Create new keys: belfry key create", "keys that expire within 7 days: %s", strings.Join(k, ", "))
	}
	return ok("no key expires within 7 days")
}
