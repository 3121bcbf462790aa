package app

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// TestLabelsAreFair: a namespace with thousands of queues leaves labels to the others.
func TestLabelsAreFair(t *testing.T) {
	t.Parallel()
	b := newLabelBudget()
	label := func(namespace string, queue int) queueLabel { return b.label(namespace, fmt.Sprint("q", queue)) }
	for i := range 5000 {
		l := label("hostile", i)
		if i < maxNamespaceLabels {
			require.Equal(t, queueLabel{"hostile", fmt.Sprint("q", i)}, l)
		} else {
			require.Equal(t, queueLabel{"hostile", otherQueues}, l)
		}
	}
	for n := range 3 { // those that are as large use up what is not reserved
		for i := range 5000 {
			label(fmt.Sprint("large", n), i)
		}
	}
	for n := range 20 {
		for i := range firstQueues {
			namespace := fmt.Sprint("small", n)
			require.Equal(t, queueLabel{namespace, fmt.Sprint("q", i)}, label(namespace, i))
		}
	}
	require.Equal(t, queueLabel{"hostile", "q7"}, label("hostile", 7), "a label is kept")
	for n := range 1000 {
		for i := range 10 {
			label(fmt.Sprint("more", n), i)
		}
	}
	require.Len(t, b.used, maxQueueLabels)
	require.Equal(t, queueLabel{otherQueues, otherQueues}, label("last", 1))
	require.Equal(t, queueLabel{"hostile", otherQueues}, label("hostile", 9999), "its sum stays its own")
	require.Equal(t, queueLabel{otherQueues, otherQueues}, b.label("", ""))
}

// TestQueuesAreCountedUnderTheirName: also what happened before the name was known, and while it became known.
func TestQueuesAreCountedUnderTheirName(t *testing.T) {
	t.Parallel()
	m := newMetrics(testConfig(""))
	count := func(queue int32) {
		m.Started(queue, time.Millisecond)
		m.Ended(queue, job.Outcome{Kind: job.Failed}, time.Second)
		m.Ended(queue, job.Outcome{Kind: job.Deferred}, time.Second) // its attempt did not start
		m.Entered(queue, job.EndedFailed, job.ReasonLost, 1)
	}
	const attempts = 500 // fewer than are kept until the name is known
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range attempts {
				count(1)
			}
		})
	}
	count(2)
	count(0) // of a queue that is not known
	require.Contains(t, m.queues.unknown(), int32(2))
	m.queues.learn([]postgres.QueueName{{Namespace: "team", Queue: "mail", ID: 1}})
	all.Wait()
	require.Equal(t, []int32{2}, m.queues.unknown())
	m.queues.learn([]postgres.QueueName{{ID: 2}}) // deleted
	require.Empty(t, m.queues.unknown())
	sum := map[string]float64{"team mail ": 4 * attempts, "(other) (other) ": 2}
	require.Equal(t, sum, m.values(t, "belfry_schedule_lag_seconds"))
	require.Equal(t, sum, m.values(t, "belfry_attempt_seconds"))
	ended := m.values(t, "belfry_runs_ended_total")
	require.InDelta(t, 4*attempts, ended["failed team mail lost "], 0)
	require.InDelta(t, 2, ended["failed (other) (other) lost "], 0)
	require.Contains(t, ended, "succeeded team mail  ", "it is 0 from the start")
	require.Contains(t, ended, "failed team mail attempts ", "it is 0 from the start")
	require.Contains(t, ended, "skipped team mail missed_window ", "it is 0 from the start")
}

// TestUnnamedValuesAreBounded: while the database does not answer, names cannot be read.
func TestUnnamedValuesAreBounded(t *testing.T) {
	t.Parallel()
	m := newMetrics(testConfig(""))
	for i := range int32(maxUnnamed + 5) {
		m.Started(1+i%10, 0)
	}
	require.Equal(t, maxUnnamed, m.queues.kept)
	require.Equal(t, map[string]float64{"(other) (other) ": 5}, m.values(t, "belfry_schedule_lag_seconds"))
	m.queues.learn([]postgres.QueueName{{ID: 1, Namespace: "team", Queue: "mail"}})
	require.Equal(t, maxUnnamed*9/10, m.queues.kept, "a name that is known makes room, whatever the others do")
}

// TestSeriesAreBounded: what one node exports by queue, whatever its users do.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	m := newMetrics(testConfig(""))
	var names []postgres.QueueName
	for i := range int32(5000) {
		names = append(names, postgres.QueueName{Namespace: fmt.Sprint("n", i%50), Queue: fmt.Sprint("q", i), ID: i + 1})
	}
	m.queues.learn(names)
	d := postgres.Depth{}
	for _, n := range names {
		m.Started(n.ID, 0)
		d.Queues = append(d.Queues, postgres.QueueDepth{QueueName: n, Due: 1, OldestDue: float64(n.ID)})
	}
	s := sampleOf(&d, m.queues.labelsOf)
	m.depth.last.Store(s)
	due := int64(0)
	for _, q := range s.queues {
		due += q.due
	}
	require.EqualValues(t, len(names), due)
	require.InDelta(t, 5000, s.queues[queueLabel{otherQueues, otherQueues}].oldestDue, 0)
	series := 0
	families, err := m.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, one := range f.GetMetric() {
			if series++; one.GetHistogram() != nil {
				series += len(one.GetHistogram().GetBucket()) + 2 // +Inf, sum and count
			}
		}
	}
	t.Logf("%d series", series)
	require.Less(t, series, 10_000)
}

// BenchmarkAttempt is what the metrics of an attempt cost, with labels by queue and without.
func BenchmarkAttempt(b *testing.B) {
	q := newQueueMetrics()
	var names []postgres.QueueName
	for i := range int32(300) {
		names = append(names, postgres.QueueName{Namespace: fmt.Sprint("n", i%10), Queue: fmt.Sprint("q", i), ID: i + 1})
	}
	q.learn(names)
	b.Run("labelled", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for i := int32(0); p.Next(); i++ {
				q.started(1+i%300, time.Millisecond)
				q.attempted(1+i%300, time.Second)
			}
		})
	})
	plain := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "plain", Buckets: lagBuckets})
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				plain.Observe(time.Millisecond.Seconds())
				plain.Observe(time.Second.Seconds())
			}
		})
	})
}
