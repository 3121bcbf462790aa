// Package finish is the step of a run after its delivery: what the outcome of an
// attempt means, and how it is written.
//
//	outcome ──► Decide ──┬─ ends:    history, output, permits freed, dead letter
//	   ▲                 ├─ retries: pending again, later
//	   │                 └─ waits:   the target has accepted it and will report
//	   └── lost: Rescue finds attempts whose process is dead
//
// decide.go is pure: the attempt, the policy of its job and one instant of the
// database are everything it looks at. A lost attempt is one more outcome.
//
// Everything that is written names the attempt and its session. If another attempt
// has taken over, no row matches, the outcome is fenced and nothing changes. That
// is why a node may repeat what it is not sure of, and why two nodes may rescue the
// same attempt.
//
// A success, the most frequent outcome, has a statement of its own that needs no
// decision (complete.sql). All others are read under a lock, decided and written in
// one transaction for many runs.
//
//	decide.go       what an outcome means
//	store.go        writes successes, and what was decided
//	rescue.go       finds attempts that no process will report on
//	report.go       reports and heartbeats of targets that have accepted a run
//	pause.go        pauses jobs that have failed too often
//	fence.go        which attempts are no longer live
//	output.go       what commands have written
package finish
