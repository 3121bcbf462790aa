package postgres_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/start"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// policyRun is a run of a policyJob. Its times are hours from now, so that no time passes for the test.
type policyRun struct {
	due, runAt int
	live       bool
	attempt    int16
	deferred   bool
	origin     job.Origin
}

// heldUntil: a restore holds what is due before.
const heldUntil = -34

func (r *policyRun) held() bool { return r.due < heldUntil }

// policyJob is a job with a random policy and random runs, of which the first is claimed.
type policyJob struct {
	job.Job
	runs []policyRun
	key  job.Key // of the first
}

func randomRuns(r *rand.Rand) []policyRun {
	due := r.Perm(40)[:1+r.IntN(4)]
	runs := make([]policyRun, 0, len(due))
	for i, d := range due {
		run := policyRun{due: -d, origin: job.Origin(r.IntN(5)), live: i > 0 && r.IntN(3) == 0}
		run.runAt = run.due
		if r.IntN(3) == 0 {
			run.attempt, run.deferred = 1, r.IntN(2) == 0
		}
		switch {
		case i > 0 && r.IntN(3) == 0:
			run.runAt = 1 // a retry, later
		case r.IntN(4) == 0:
			run.runAt = 0
		}
		runs = append(runs, run)
	}
	return runs
}

// starts is what start.Decide says about the first run, from what the test knows about the others. A claim from
// the wheel replaces none, and those of a job with overlap skip that are late together do not wait for each other in it.
func (p *policyJob) starts(now time.Time, wheel bool) bool {
	at := func(hours int) time.Time { return now.Add(time.Duration(hours) * time.Hour) }
	run := p.runs[0]
	in := start.Input{
		Overlap: p.Overlap, Deadline: p.Deadline, JobState: job.Active, Origin: run.origin, DueAt: at(run.due),
		Attempt: run.attempt, Deferred: run.deferred, Now: at(max(0, run.runAt)),
	}
	for _, o := range p.runs[1:] {
		switch {
		case o.live:
			in.Running++
		case o.due < run.due && o.runAt <= 0 && !o.held() && (!wheel || p.Overlap != job.OverlapSkip):
			in.Ahead++
		}
	}
	verdict := start.Decide(in).Verdict
	return !run.held() && (verdict == start.Starts || verdict == start.Replaces && !wheel)
}

const insertPolicyRun = `
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
                 concurrency_key, concurrency_max, handler, needs_sweep, attempts, session_id, claimed_at)
SELECT partition, 0, version, id, $2::timestamptz + $3 * interval '1 h', $2::timestamptz + $4 * interval '1 h', $5, $6,
       0, $7, admit, queue_id,
       concurrency_key, concurrency_max, handler, false, CASE WHEN $8 THEN '[{}]'::jsonb END,
       CASE WHEN $5::smallint = 1 THEN $9::uuid END, CASE WHEN $5::smallint = 1 THEN now() END
FROM job WHERE id = $1 RETURNING due_at`

// policyJobs creates jobs with random policies and runs.
func (b *limits) policyJobs(r *rand.Rand, n int, now time.Time, change func(*job.Definition)) (out []*policyJob) {
	b.t.Helper()
	overlaps := []job.Overlap{
		job.OverlapAllow, job.OverlapSkip, job.OverlapQueue, job.OverlapQueueAll, job.OverlapReplace,
	}
	for i := range n {
		d := definition(fmt.Sprintf("job-%d", i), schedule.Spec{Every: "1h", StartAt: now.Add(time.Hour)})
		d.Overlap = overlaps[r.IntN(len(overlaps))]
		if r.IntN(2) == 0 {
			d.Deadline = job.Duration(15*time.Hour + 30*time.Minute)
		}
		change(&d)
		p := &policyJob{Job: b.create(d), runs: randomRuns(r)}
		for i, run := range p.runs {
			k := job.Key{Partition: p.Partition, Job: p.ID}
			state := job.Pending
			if run.live {
				state = job.Running
			}
			require.NoError(b.t, b.pool.QueryRow(
				b.t.Context(), insertPolicyRun, p.ID, now, run.due, run.runAt, int16(state), run.attempt,
				int16(run.origin), run.attempt > 0 && !run.deferred, b.session,
			).Scan(&k.DueAt))
			if i == 0 {
				p.key = k
			}
		}
		out = append(out, p)
	}
	return out
}

// TestClaimsStartWhatThePolicyStarts: a claim compares in SQL what start.Decide decides in Go. It starts a run if, and
// only if, start.Decide would start it. All others ask start.Decide, and must not give it wrong facts.
func TestClaimsStartWhatThePolicyStarts(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		change func(*job.Definition)
		claim  func(b *limits, keys []job.Key) []job.Attempt
	}{
		"nodes": {
			change: func(*job.Definition) {},
			claim: func(b *limits, keys []job.Key) []job.Attempt {
				out, err := b.store.Claim(b.t.Context(), b.session, keys, time.Minute)
				require.NoError(b.t, err)
				return out
			},
		},
		"limits": {
			change: func(d *job.Definition) { d.Concurrency = job.Concurrency{Key: d.Name, Max: 10} },
			claim: func(b *limits, keys []job.Key) []job.Attempt {
				out, refused, err := admit(b.t.Context(), b.store, b.session, keys)
				require.NoError(b.t, err)
				require.Empty(b.t, refused)
				return out
			},
		},
		"waitlists": {
			change: func(d *job.Definition) { d.Concurrency = job.Concurrency{Key: d.Name, Max: 10} },
			claim: func(b *limits, keys []job.Key) []job.Attempt {
				admitted, err := b.waiting(keys)
				require.NoError(b.t, err)
				var alone []job.Key // they replace others
				for i, a := range admitted {
					if a.Alone {
						alone = append(alone, keys[i])
					}
				}
				attempts, _ := split(keys, admitted)
				more, refused, err := admit(b.t.Context(), b.store, b.session, alone)
				require.NoError(b.t, err)
				require.Empty(b.t, refused)
				return append(attempts, more...)
			},
		},
		"workers": {
			change: func(d *job.Definition) {
				d.Target = job.Target{Kind: "worker", Config: json.RawMessage(`{"handler":"x"}`)}
			},
			claim: claimForWorker,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			b := setupLimits(t)
			now := b.now()
			b.exec(`UPDATE cluster SET held_until = $1`, now.Add(heldUntil*time.Hour))
			jobs := b.policyJobs(rand.New(rand.NewPCG(seed, 0)), 300, now, way.change)
			keys := make([]job.Key, 0, len(jobs))
			for _, p := range jobs {
				keys = append(keys, p.key)
			}
			started := map[job.RunKey]bool{}
			for _, a := range way.claim(b, keys) {
				started[a.Key.RunKey()] = true
			}
			n := 0
			for _, p := range jobs {
				want := p.starts(now, name == "nodes")
				require.Equal(t, want, started[p.key.RunKey()], "%s, deadline %s: %+v", p.Overlap, p.Deadline, p.runs)
				if want {
					n++
				}
			}
			require.Greater(t, n, 50)
			require.Greater(t, len(jobs)-n, 50)
		})
	}
}

func claimForWorker(b *limits, keys []job.Key) (out []job.Attempt) {
	w, _, err := b.store.OpenSession(b.t.Context(), job.SessionParams{
		Namespace: b.namespace, Queue: "default", Make: true, Name: "w", TTL: time.Hour,
	})
	require.NoError(b.t, err)
	got, err := b.store.PullClaim(b.t.Context(), job.PullClaimParams{
		Namespace: b.namespace, Queue: w.Queue, Feeds: pullFeeds(w.Queue), Limit: 2000,
		Polls: []job.Poll{{Session: w.ID, Handlers: []string{"x"}, Max: 1000}},
		Skip:  func(k job.Key) bool { return !slices.Contains(keys, k) },
	})
	require.NoError(b.t, err)
	for i := range got.Claimed {
		out = append(out, got.Claimed[i].Attempt)
	}
	return out
}

// TestARunWithADeadlineOutlivesItsJob: its delivery was deferred while the job was deleted. It is claimed, so that it ends.
func TestARunWithADeadlineOutlivesItsJob(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	wide := b.due(1, func(_ int, d *job.Definition) { d.Queue, d.Overlap = "wide", job.OverlapAllow })[0]
	narrow := b.due(1, func(_ int, d *job.Definition) { d.Overlap = job.OverlapAllow })[0]
	b.exec(`UPDATE run SET admit = 4 /* in time */`)
	b.exec(`DELETE FROM job`)
	attempts, err := b.store.Claim(t.Context(), b.session, []job.Key{wide}, 0)
	require.NoError(t, err)
	require.Len(t, attempts, 1)
	attempts, refused, err := admit(t.Context(), b.store, b.session, []job.Key{narrow})
	require.NoError(t, err)
	require.Empty(t, refused)
	require.Len(t, attempts, 1)
}
