package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// stories returns what belfry why says.
func (n *whyNode) stories(args ...string) []story {
	n.T.Helper()
	var out struct {
		Items []story `json:"items"`
	}
	said := n.Good(append(append([]string{"why"}, args...), "-o", "json")...)
	require.NoError(n.T, json.Unmarshal([]byte(said), &out), said)
	return out.Items
}

// endedAs is how a run ended.
type endedAs struct {
	ended  job.Ended
	reason job.Reason
	dead   bool
}

// allEnds are the ways in which a run of its own entry ends.
func allEnds() (out []endedAs) {
	out = append(out, endedAs{ended: job.EndedSucceeded})
	for _, r := range []job.Reason{
		job.ReasonOverlap, job.ReasonOverlapLimit, job.ReasonExpired, job.ReasonPaused, job.ReasonMissed,
		job.ReasonMissedWindow, job.ReasonMissedMax, job.ReasonReplaced, job.ReasonRestored,
	} {
		out = append(out, endedAs{ended: job.EndedSkipped, reason: r})
	}
	for _, r := range []job.Reason{
		job.ReasonAttempts, job.ReasonRejected, job.ReasonLost, job.ReasonUnknownOutcome, job.ReasonGone,
	} {
		out = append(out, endedAs{job.EndedFailed, r, true}, endedAs{job.EndedFailed, r, false})
	}
	for _, r := range []job.Reason{job.ReasonCancelled, job.ReasonReplaced} {
		out = append(out, endedAs{ended: job.EndedCancelled, reason: r})
	}
	return out
}

// endedRuns writes ended runs of a job into the ledger, each with a due time of its own.
type endedRuns struct {
	n   *whyNode
	job uuid.UUID
	due time.Time
}

func (r *endedRuns) add(origin job.Origin, e endedAs) (run string) {
	t := r.n.T
	t.Helper()
	r.due = r.due.Add(time.Hour)
	k := job.Key{Partition: job.PartitionOf(r.job), Job: r.job, DueAt: r.due}
	var payload *string
	if origin == job.FromTrigger || origin == job.FromBackfill {
		k.Seq = 1
	}
	if origin == job.FromTrigger {
		own := `"of the trigger"`
		payload = &own
	}
	const history = `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, started_at, ended, attempt, origin,
                         status, queue_id, reason, message, payload)
SELECT partition, $2, version, id, $3, $3, now(), CASE WHEN $4 <> 4 THEN now() END, $4, ($4 <> 4)::integer, $5, 0,
       queue_id, nullif($6, ''), nullif($6, ''), $7
FROM job WHERE id = $1`
	_, err := r.n.pool.Exec(t.Context(), history, k.Job, k.Seq, k.DueAt, int16(e.ended), int16(origin), string(e.reason),
		payload)
	require.NoError(t, err)
	if e.dead {
		const dead = `
INSERT INTO dead_letter (partition, job_id, due_at, seq, queue_id, failed_at, attempt, reason, message, payload,
                         status, cause)
SELECT partition, id, $3, $2, queue_id, now(), 1, $4, $4, $5, 0, $4 FROM job WHERE id = $1`
		_, err := r.n.pool.Exec(t.Context(), dead, k.Job, k.Seq, k.DueAt, string(e.reason), payload)
		require.NoError(t, err)
	}
	return job.FormatRunID(k)
}

// TestWhyCommandsWork runs each command that belfry why suggests, for runs of all origins that ended in all ways, and
// for those of a deleted job.
func TestWhyCommandsWork(t *testing.T) {
	t.Parallel()
	n := newWhyNode(t)
	runsOf := func(name string) *endedRuns {
		n.create(name, "/ok", "--every", "1h", "--overlap", "allow")
		var v jobView
		require.NoError(t, json.Unmarshal([]byte(n.Good("job", "get", name, "-o", "json")), &v))
		id, err := job.ParseJobID(v.ID)
		require.NoError(t, err)
		return &endedRuns{n, id, n.now().Truncate(time.Hour).Add(-1000 * time.Hour)}
	}
	live, gone := runsOf("live"), runsOf("gone")
	var ofDeleted, again []string
	for origin := range job.OriginNames {
		for _, e := range allEnds() {
			ofDeleted = append(ofDeleted, gone.add(origin, e))
			what := fmt.Sprintf("%s, ended %d, %s, dead letter %v", job.OriginNames[origin], e.ended, e.reason, e.dead)
			// Commands are alternatives, so each gets a run of its own.
			for i := 0; ; i++ {
				run := live.add(origin, e)
				s := n.stories(run)[0]
				if i >= len(s.Commands) {
					break
				}
				n.Good(s.Commands[i]...)
				if verb := s.Commands[i][1]; verb == "retry" || verb == "redrive" {
					again = append(again, run)
				}
			}
			s := n.stories(live.add(origin, e))[0]
			retried := slices.ContainsFunc(s.Commands, func(c []string) bool { return c[1] == "retry" || c[1] == "redrive" })
			require.Equal(t, e.dead || e.ended == job.EndedSkipped || e.ended == job.EndedCancelled, retried, what)
		}
	}
	for _, run := range again {
		n.until(func() bool {
			var v runView
			require.NoError(t, json.Unmarshal([]byte(n.Good("run", "get", run, "-o", "json")), &v))
			return v.Origin == "redrive" && v.State == "succeeded"
		})
	}
	n.Good("job", "delete", "gone")
	for _, run := range ofDeleted {
		for _, s := range n.stories(run) {
			for _, c := range s.Commands {
				n.Good(c...)
			}
		}
	}
}

// obey runs the commands of a story and checks the ones that create runs. It returns their verbs.
func (n *whyNode) obey(s story) (verbs []string) {
	n.T.Helper()
	for _, c := range s.Commands {
		out := n.Good(c...)
		verbs = append(verbs, c[1])
		if c[1] == "backfill" {
			require.Contains(n.T, out, "backfills 1 run", "%s", s.Next)
		}
	}
	return verbs
}

// TestWhyCommandsWithoutARun: the same for occurrences that have no entry of their own, and for live runs.
func TestWhyCommandsWithoutARun(t *testing.T) {
	t.Parallel()
	n := newWhyNode(t)
	n.create("shelved", "/ok", "--cron", "0 0 1 1 *", "--queue", "shelf")
	n.Good("queue", "pause", "shelf")
	hourly := n.now().Truncate(time.Hour).Add(-48 * time.Hour)
	long := func(name, schedule string) { // a job that exists since long ago
		n.file(`{name: %s, target: {kind: http, config: {url: %q}}, schedule: {%s}}`, name, n.target+"/ok", schedule)
		_, err := n.pool.Exec(t.Context(), `UPDATE job_version SET created_at = '2025-01-01' WHERE job_id = (
			SELECT id FROM job WHERE name = $1)`, name)
		require.NoError(t, err)
	}
	// skipped writes a range of skipped occurrences.
	skipped := func(name string) {
		_, err := n.pool.Exec(t.Context(), `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status,
                         queue_id, reason, due_to, count)
SELECT partition, 0, version, id, $2, $2, now(), 4, 0, 0, 0, queue_id, 'paused', $2::timestamptz + interval '9 h', 10
FROM job WHERE name = $1`, name, hourly)
		require.NoError(t, err)
	}
	explain := func(args ...string) []string {
		t.Helper()
		stories := n.stories(args...)
		require.Len(t, stories, 1)
		return n.obey(stories[0])
	}

	long("hourly", "every: 1h")
	skipped("hourly")
	second := hourly.Add(time.Hour).Format(time.RFC3339)
	require.Equal(t, []string{"backfill"}, explain("hourly", second))
	long("changed", "every: 1h")
	skipped("changed")
	n.Good("job", "edit", "changed", "--cron", "30 3 1 1 *")
	require.Equal(t, []string{"trigger"}, explain("changed", second), "the schedule no longer has it")
	long("spring", `cron: 30 2 * * *, timezone: Europe/Berlin, dst: {gap: skip}`)
	require.Equal(t, []string{"trigger"}, explain("spring", "2026-03-29T02:30"), "the clock leaves it out")
	long("holiday", `cron: 30 2 * * *, calendars: [{dates: [12-25]}]`)
	require.Equal(t, []string{"trigger"}, explain("holiday", "2025-12-25T02:30"))
	n.obey(n.stories("holiday", "2025-12-24T02:31")[0]) // not an occurrence: the ones around it
	long("later", `cron: 30 2 * * *, start_at: "2098-01-01T00:00:00Z"`)
	require.Equal(t, []string{"get"}, explain("later", "2026-01-01T02:30"))

	trigger := func(name string, more ...string) (run string) {
		return strings.TrimSpace(n.Good(append([]string{"job", "trigger", name, "-o", "name"}, more...)...))
	}
	code := func(run, want string) story {
		t.Helper()
		var s story
		n.until(func() bool { s = n.stories(run)[0]; return s.Code == want })
		return s
	}
	for name, path := range map[string]string{"hangs": "/hangs", "accepts": "/accepts", "fails": "/broken"} {
		n.create(name, path, "--cron", "0 0 1 1 *", "--timeout", "10m", "--retry-base", "1h", "--retry-cap", "1h")
	}
	require.Equal(t, []string{"get"}, n.obey(code(trigger("hangs"), "running")))
	require.Equal(t, []string{"runs"}, n.obey(code(trigger("hangs"), "behind")))
	require.Equal(t, []string{"get"}, n.obey(code(trigger("accepts"), "accepted")))
	require.Equal(t, []string{"get"}, n.obey(code(trigger("fails"), "retrying")))
	later := n.inAnHour()
	planned := trigger("hourly", "--at", later)
	require.Empty(t, n.obey(code(planned, "planned")))
	require.True(t, slices.ContainsFunc(n.stories("hourly"), func(s story) bool {
		return s.Run != nil && s.Run.ID == planned
	}), "a run that was triggered for later is among the stories of its job")
	n.Good("run", "cancel", planned)
	require.Equal(t, []string{"retry"}, n.obey(code(planned, "cancelled")))
	code(planned, "succeeded")

	shelved := trigger("shelved", "--at", n.now().Add(2*time.Second).Format(time.RFC3339Nano))
	require.Equal(t, []string{"resume"}, n.obey(code(shelved, "queue_paused")))
	code(shelved, "succeeded")
	n.Good("job", "pause", "spring")
	require.Equal(t, []string{"resume"}, explain("spring", "2098-06-01T02:30"))
	var v jobView
	require.NoError(t, json.Unmarshal([]byte(n.Good("job", "get", "later", "-o", "json")), &v))
	n.Good("job", "delete", "later")
	require.Equal(t, []string{"versions"}, explain(v.ID, "2098-06-01T02:30"))
	require.Empty(t, explain(v.ID, "2026-01-01T02:30"), "before its start")
}
