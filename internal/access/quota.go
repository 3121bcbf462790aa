package access

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

// Quota is something that a namespace may have a limited amount of.
type Quota string

// The quotas. The operator of the cluster sets them: the database has a column max_… for each.
const (
	QuotaJobs Quota = "jobs"
	QuotaRuns Quota = "runs_per_minute" // starts of attempts; runs wait
)

// Quotas lists the quotas that the operator sets, in the order in which people see them.
var Quotas = []Quota{QuotaJobs, QuotaRuns}

// What every namespace may have a fixed amount of.
const (
	CapQueues   Quota = "queues"
	CapKeys     Quota = "keys"     // that are neither revoked nor expired
	CapSessions Quota = "sessions" // of workers
)

// The caps, so that no namespace fills the cluster. See also MaxSecrets and job.MaxNamespaceRuns.
const (
	MaxQueues   = 10_000
	MaxKeys     = 10_000
	MaxSessions = 10_000
)

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
		if q == QuotaRuns {
			bounds = [2]int64{1, job.MaxRate} // to start none, pause the queues
		}
		if limit != nil {
			problem.Between(&c, string(q), *limit, bounds)
		}
	}
	slices.SortFunc(c, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return c.Err()
}

// QuotaError says that something would exceed a quota or a cap of the namespace.
type QuotaError struct {
	Quota       Quota
	Used, Limit int64
	Added       int64 // how much was to be added
}

func (e *QuotaError) Error() string {
	advice := ""
	switch e.Quota {
	case QuotaJobs:
		return fmt.Sprintf("the namespace uses %d of its quota of %d jobs, and this needs %d more; delete jobs that are no "+
			"longer needed, or ask the operator of the cluster to raise the quota", e.Used, e.Limit, e.Added)
	case CapQueues:
		advice = "use a queue that exists"
	case CapKeys:
		advice = "revoke keys that are no longer used"
	case CapSessions:
		advice = "end sessions that are not needed, and use fewer workers with more slots each"
	}
	return fmt.Sprintf("the namespace has %d %s, and this needs %d more, but a namespace has at most %d; %s",
		e.Used, e.Quota, e.Added, e.Limit, advice)
}
