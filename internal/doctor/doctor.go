// Package doctor judges the health of a database, a cluster and this machine from facts that others collected.
//
//	postgres.Admin ──► Database ─┐
//	app ──► Machine, Settings ───┴─► Judge ──► one Result per check
//
// Every check is a pure function of [Facts]. A check that finds a fault says what is wrong and what to do, and
// docs/guide/doctor.md has a section of the same name.
package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/problem"
)

// Status is the result of a check.
type Status string

// The statuses.
const (
	OK         Status = "ok"
	Warning    Status = "warning"
	Failure    Status = "failure"
	NotChecked Status = "not_checked" // something that the check needs is missing or not visible
)

// Result is the outcome of one check.
type Result struct {
	Group   string `json:"group"`
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what to do
}

// Facts is everything the checks look at.
type Facts struct {
	Database Database
	Cluster  *Cluster // nil: the database has no schema yet, or one that is too old to be read
	Machine  Machine
	Pre      bool // before the installation: there is no schema and no node

	MaxTransaction time.Duration // how long a transaction may be open
}

// verdict is a Result without the name of its check.
type verdict struct {
	status        Status
	message, hint string
}

type check struct {
	group, name string
	pre         bool // it also makes sense before the installation
	judge       func(*Facts) verdict
}

// checks is in the order of the report.
var checks = slices.Concat(databaseChecks, timeChecks, clusterChecks, nodeChecks, useChecks)

// Names returns the names of all checks.
func Names() (out []string) {
	for _, c := range checks {
		out = append(out, c.name)
	}
	return out
}

// Judge runs the checks.
func Judge(f Facts) (out []Result) {
	for _, c := range checks {
		if f.Pre && !c.pre {
			continue
		}
		var v verdict
		switch {
		case f.Database.Unreachable != "" && c.name != connectionCheck && (c.group != nodeGroup || !c.pre):
			v = notChecked("there is no connection to the database")
		case f.Cluster != nil || c.pre || c.name == schemaCheck:
			v = c.judge(&f)
		default:
			v = notChecked("the database does not have the schema of this belfry")
		}
		out = append(out, Result{c.group, c.name, v.status, v.message, v.hint})
	}
	return out
}

func ok(format string, args ...any) verdict { return verdict{OK, fmt.Sprintf(format, args...), ""} }

func warn(hint, format string, args ...any) verdict {
	return verdict{Warning, fmt.Sprintf(format, args...), hint}
}

func fail(hint, format string, args ...any) verdict {
	return verdict{Failure, fmt.Sprintf(format, args...), hint}
}

func notChecked(format string, args ...any) verdict {
	return verdict{NotChecked, fmt.Sprintf(format, args...), ""}
}

// ago rounds a duration for people.
func ago(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return problem.Count(int64(d/time.Second), "second")
}
