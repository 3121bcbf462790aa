package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// alertDrill is a fault, and the alerts that it causes.
type alertDrill struct {
	name  string
	setup setup
	run   func(*alarms)
}

// TestAlerts: with two nodes, a real Prometheus and the shipped rules, each fault fires the alerts that it must, and no
// other one. When the fault is over, they resolve.
func TestAlerts(t *testing.T) {
	t.Parallel()
	if os.Getenv("BELFRY_ALERTS") == "" {
		t.Skip("BELFRY_ALERTS is not set; run: make test-alerts")
	}
	drills := []alertDrill{
		{"a node is killed and stays down", setup{}, killedNode},
		{"all nodes are killed", setup{}, killedNodes},
		{"the database is stopped", setup{own: true, env: []string{"BELFRY_CANARY=true"}}, stoppedDatabase},
		{"the database clock jumps an hour", setup{clock: true}, jumpedClock},
		{"a queue is paused, another one has no workers", setup{}, pausedQueue},
		{"runs fail permanently", setup{}, failedRuns},
		{"the disk of the database is full", setup{small: true}, fullDisk},
	}
	rows := make([]string, len(drills))
	t.Run("drills", func(t *testing.T) {
		for i, d := range drills {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				d.setup.nodes, d.setup.api, d.setup.named = 2, true, true
				c := newCluster(t, d.setup)
				c.create(10, 24*time.Hour, spread, c.alertJob)
				a := newAlarms(t, c)
				d.run(a)
				rows[i] = "| " + d.name + " | " + a.judge() + " |"
			})
		}
	})
	t.Logf("| fault | alerts (after) | resolved after |\n|---|---|---|")
	for _, row := range rows {
		t.Log(row)
	}
}

// alertJob: half of the jobs skip what they missed, and a fifth is in progress most of the time.
func (c *cluster) alertJob(i int, in *job.NewJob) {
	if i%2 == 1 {
		in.Definition.Missed = job.Missed{Policy: job.MissedSkip}
	}
	if i%5 == 0 {
		in.Definition.Target.Config = json.RawMessage(`{"url":"` + c.sink.url + `/slow"}`)
	}
}

// again starts a node at the address of one that was killed.
func (a *alarms) again(i int) {
	a.t.Helper()
	n := &node{program: binary, name: a.nodes[i].name, listen: a.nodes[i].listen}
	require.NoError(a.t, n.start(a.url, a.log, a.env...))
	a.nodes[i] = n
}

func killedNode(a *alarms) {
	a.begin()
	_ = a.nodes[1].end(syscall.SIGKILL)
	a.fire("BelfryNodeDown", "BelfryRescues", "BelfryRunsLateFast", "BelfryRunsLateSlow")
	a.again(1)
	a.balanced()
	a.silent()
}

func killedNodes(a *alarms) {
	a.begin()
	for _, n := range a.nodes {
		_ = n.end(syscall.SIGKILL)
	}
	a.fire("BelfryDown")
	a.again(0)
	a.again(1)
	a.fire("BelfryMissedInOutage", "BelfryCatchUp") // what is late before the first scrape is no increase, so lateness may fire or not
	a.balanced()
	a.silent()
}

func stoppedDatabase(a *alarms) {
	ctx, stop := context.WithCancel(a.ctx)
	defer stop()
	go a.caller(10 * time.Second).list(ctx)
	require.NoError(a.t, until(ctx, func() bool {
		found, err := a.p.query(ctx,
			`sum(rate(belfry_runs_ended_total{namespace="belfry-canary", ended="succeeded"}[1m])) > 0`)
		return err == nil && len(found) > 0
	}), "the canary does not run")
	a.begin()
	require.NoError(a.t, a.db.kill(true))
	a.fire("BelfryNoSession", "BelfryPartitionsUnowned", "BelfryApiErrors", "BelfryCanaryStopped",
		"BelfryOutcomesUnwritten")
	_, err := a.db.start(a.ctx)
	require.NoError(a.t, err)
	a.fire("BelfryMissedInOutage", "BelfryCatchUp", "BelfryRunsLateFast", "BelfryRunsLateSlow")
	a.balanced()
	a.silent()
}

func jumpedClock(a *alarms) {
	a.begin()
	a.db.setClock(a.t, time.Hour)
	a.fire("BelfryClockJump")
	a.db.setClock(a.t, 0)
	a.fire("BelfryMissedInOutage", "BelfryRunsLateFast", "BelfryRunsLateSlow")
	a.silent()
}

// pausedQueue: runs wait in a paused queue at least as long as in a queue without workers. Only the latter alerts.
func pausedQueue(a *alarms) {
	u := a.caller(10 * time.Second)
	a.create(2, 24*time.Hour, func(i int, in *job.NewJob) {
		in.Definition.Name = fmt.Sprintf("held-%d", i)
		in.Definition.Queue = "held"
	})
	require.NoError(a.t, until(a.ctx, func() bool {
		got, _ := u.call(a.ctx, "POST", "/queues/held:pause", "")
		return got == acknowledged
	}))
	a.queueHas("held", `state="due"`)
	a.begin()
	a.create(2, 24*time.Hour, pulled, func(i int, in *job.NewJob) {
		in.Definition.Name = fmt.Sprintf("work-%d", i)
	})
	a.fire("BelfryOldestDue work", "BelfryQueueStarved work")
	a.queueHas("held", `state="due"`)
	worker := a.workers().start("", 10)
	defer func() { _ = worker.Process.Kill(); _ = worker.Wait() }()
	require.NoError(a.t, until(a.ctx, func() bool {
		got, _ := u.call(a.ctx, "POST", "/queues/held:resume", "")
		return got == acknowledged
	}))
	a.silent()
}

// queueHas waits until Prometheus has runs of a queue.
func (a *alarms) queueHas(queue, selector string) {
	a.t.Helper()
	require.NoError(a.t, until(a.ctx, func() bool {
		found, err := a.p.query(a.ctx, fmt.Sprintf(`sum(belfry_queue_runs{queue=%q, %s}) > 0`, queue, selector))
		return err == nil && len(found) > 0
	}))
}

func failedRuns(a *alarms) {
	a.begin()
	a.create(5, 24*time.Hour, spread, func(i int, in *job.NewJob) {
		in.Definition.Name = fmt.Sprintf("fails-%d", i)
		in.Definition.Target.Config = json.RawMessage(`{"url":"` + a.sink.url + `/fail"}`)
		in.Definition.Retry.MaxAttempts = 1
	})
	a.fire("BelfryDeadLettersGrow default")
	for _, j := range a.jobs[len(a.jobs)-5:] {
		_, err := a.store.DeleteJob(a.ctx, job.ChangeParams{Namespace: j.Namespace, ID: j.ID, Actor: "test"})
		require.NoError(a.t, err)
	}
	a.silent()
}

// fullDisk: the alert fires while PostgreSQL still answers.
func fullDisk(a *alarms) {
	a.begin()
	undo := a.fill()
	a.fire("BelfryDatabaseCannotWrite")
	undo()
	a.silent()
}
