package doctor

import (
	"strings"

	"github.com/belfry-dev/belfry/internal/problem"
)

var useChecks = []check{
	{"use", "kinds", false, (*Facts).kinds},
	{"use", "workers", false, (*Facts).workers},
	{"use", "paused", false, (*Facts).paused},
	{"use", "keys", false, (*Facts).keys},
	{"use", "archive-store", false, (*Facts).archiveStore},
	{"use", "archive-days", false, (*Facts).archiveDays},
}

func (f *Facts) kinds() verdict {
	if kinds := f.Cluster.Undelivered; len(f.Cluster.Nodes) > 0 && len(kinds) > 0 {
		return warn("Set command.enabled on all nodes and restart them. Or delete the jobs.",
			"runs wait because no node delivers to the kind of target of their jobs: %s", strings.Join(kinds, ", "))
	}
	return f.ofNodes("nodes deliver to all kinds of targets that jobs have")
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

const noArchive = "no archive is configured"

func (f *Facts) archiveStore() verdict {
	switch a := f.Machine.Archive; {
	case !a.Asked:
		return ok(noArchive)
	case a.Skipped != "":
		return notChecked("%s: %s", a.What, a.Skipped)
	case a.Problem != "":
		return fail("Check archive.url, its keys and its network.", "the archive %s cannot be used: %s", a.What, a.Problem)
	}
	return ok("%s can be written, read and listed, and does not overwrite", f.Machine.Archive.What)
}

// maxArchiveBehind is how many days the archive may be behind: the last one, and one that is being exported.
const maxArchiveBehind = 2

func (f *Facts) archiveDays() verdict {
	c := f.Cluster
	if !f.Machine.Archive.Asked && !c.ArchiveRequired {
		return ok(noArchive)
	}
	text := "the archive does not have " + problem.Count(c.ArchiveBehind, "day") + " that are over"
	hint := "Look for the log line: archive failed. See also: belfry archive status"
	switch {
	case c.ArchiveBehind <= maxArchiveBehind:
		return ok("the archive is at most %s behind", problem.Count(maxArchiveBehind, "day"))
	case c.ArchiveRequired:
		return fail(hint, "%s; they are not dropped, and fill the disk of the database", text)
	}
	return warn(hint, "%s; each is lost when it is older than keep_history", text)
}
