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
	QuotaJobs    Quota = "jobs"
	QuotaKeys    Quota = "keys" // that are neither revoked nor expired
	QuotaSecrets Quota = "secrets"
	QuotaRuns    Quota = "runs_per_minute" // starts of attempts; runs wait
)

// Quotas lists all quotas, in the order in which people see them.
var Quotas = []Quota{QuotaJobs, QuotaKeys, QuotaSecrets, QuotaRuns}

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

// QuotaError says that something would exceed a quota of the namespace.
type QuotaError struct {
	Quota       Quota
	Used, Limit int64
	Added       int64 // how much was to be added
}

var quotaAdvice = map[Quota]string{
	QuotaJobs:    "delete jobs that are no longer needed",
	QuotaKeys:    "revoke keys that are no longer used",
	QuotaSecrets: "delete secrets that no target uses",
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the namespace uses %d of its quota of %d %s, and this needs %d more; "+
		"%s, or ask the operator of the cluster to raise the quota", e.Used, e.Limit, e.Quota, e.Added, quotaAdvice[e.Quota])
}
