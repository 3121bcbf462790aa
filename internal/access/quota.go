package access

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

// Quota is something that a namespace may have a limited amount of. The operator of the cluster sets the limit.
type Quota string

// The quotas. The database has a column max_… for each.
const (
	QuotaJobs     Quota = "jobs"
	QuotaStorage  Quota = "storage" // bytes of the payloads and target configurations of jobs
	QuotaQueues   Quota = "queues"
	QuotaKeys     Quota = "keys" // that are neither revoked nor expired
	QuotaSecrets  Quota = "secrets"
	QuotaSessions Quota = "sessions"        // of workers
	QuotaLiveRuns Quota = "live_runs"       // runs that have not ended; above it, schedules add none
	QuotaRuns     Quota = "runs_per_minute" // starts of attempts; runs wait
)

// Quotas lists all quotas, in the order in which people see them.
var Quotas = []Quota{
	QuotaJobs, QuotaStorage, QuotaQueues, QuotaKeys, QuotaSecrets, QuotaSessions, QuotaLiveRuns, QuotaRuns,
}

// QuotaUse is a quota of a namespace, and how much of it is used.
type QuotaUse struct {
	Quota Quota
	Limit *int64 // nil: no quota
	Used  *int64 // nil: not known
}

// MaxQuota bounds quotas.
const MaxQuota = 1 << 50

// QuotaParams are new limits of a namespace by quota. nil removes a limit. Quotas that are missing stay as they are.
type QuotaParams map[Quota]*int64

// Validate returns all problems at once: see [problem.All].
func (p QuotaParams) Validate() error {
	var c problem.Checker
	for q, limit := range p {
		problem.OneOf(&c, "quota", q, Quotas...)
		bounds := [2]int64{0, MaxQuota}
		switch q {
		case QuotaRuns:
			bounds = [2]int64{1, job.MaxRate} // to start none, pause the queues
		case QuotaLiveRuns:
			bounds[0] = 1 // to plan none, pause the jobs
		}
		if limit != nil {
			problem.Between(&c, string(q), *limit, bounds)
		}
	}
	slices.SortFunc(c, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return c.Err()
}

// QuotaError says that something would exceed a quota of the namespace.
type QuotaError struct {
	Quota       Quota
	Used, Limit int64
	Added       int64 // how much was to be added
}

// quotaText is what a quota counts, and how to use less of it.
var quotaText = map[Quota]struct{ what, advice string }{
	QuotaJobs:     {"jobs", "delete jobs that are no longer needed"},
	QuotaStorage:  {"bytes of payloads and target configurations", "delete jobs, or make their payloads shorter"},
	QuotaQueues:   {"queues", "use a queue that exists"},
	QuotaKeys:     {"keys", "revoke keys that are no longer used"},
	QuotaSecrets:  {"secrets", "delete secrets that no target uses"},
	QuotaSessions: {"sessions of workers", "end those that are not needed, use fewer workers with more slots each"},
}

func (e *QuotaError) Error() string {
	t := quotaText[e.Quota]
	return fmt.Sprintf("the namespace uses %d of its quota of %d %s, and this needs %d more; "+
		"%s, or ask the operator of the cluster to raise the quota", e.Used, e.Limit, t.what, e.Added, t.advice)
}
