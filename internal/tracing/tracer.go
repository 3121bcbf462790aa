package tracing

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
	"github.com/belfry-dev/belfry/internal/trace"
)

const (
	maxEnds    = 10_000 // runs that wait until they are read
	readBatch  = 500    // runs in one statement
	readTries  = 10     // of a batch, which is then dropped: one that cannot be read must not block the others
	readPause  = 100 * time.Millisecond
	readLimit  = 15 * time.Second
	flushLimit = 3 * time.Second
	// keptRate is how many runs a second are traced because of how they ended. If a target is down, all runs fail, and
	// reading each of them would slow down the others.
	keptRate = 100
)

// Store is what the tracer reads.
type Store interface {
	// TraceRuns returns those of the runs whose end is in history.
	TraceRuns(ctx context.Context, ends []job.End) ([]job.Traced, error)
}

// Options of a Tracer.
type Options struct {
	Store   Store
	Export  Export
	Sampler trace.Sampler
	Late    time.Duration // a run whose last attempt started later than this is traced
	Queue   int           // maximum number of spans that wait for the export
	Flush   time.Duration // how long a node that stops exports what is left; default 3 s
	Log     *slog.Logger
}

// Tracer traces runs. Safe for concurrent use.
type Tracer struct {
	Options
	ends  chan job.End
	spans chan []*tracepb.Span // of one run each
	kept  *rate.Limiter        // of failed and late runs
	tried *rate.Limiter        // of runs that may have been rescued

	queued            atomic.Int64 // spans in the channel
	dropped, exported atomic.Int64

	reading   []job.End       // taken from ends, until they are read
	reads     int             // failed reads of them
	exporting []*tracepb.Span // taken from spans, until they are exported
	tries     int             // of exporting
}

// New returns a Tracer. Run does its work.
func New(o Options) *Tracer {
	o.Export.open()
	o.Flush = cmp.Or(o.Flush, flushLimit)
	return &Tracer{
		Options: o, ends: make(chan job.End, maxEnds), spans: make(chan []*tracepb.Span, o.Queue),
		kept: rate.NewLimiter(keptRate, keptRate), tried: rate.NewLimiter(keptRate, keptRate),
	}
}

// Dropped returns how many spans were not exported.
func (t *Tracer) Dropped() int64 { return t.dropped.Load() }

// Exported returns how many spans a collector has accepted.
func (t *Tracer) Exported() int64 { return t.exported.Load() }

// Sampled reports whether a run is traced whatever its outcome. trigger is the traceparent of the request that
// triggered it, or empty.
func (t *Tracer) Sampled(key job.Key, trigger string) bool { return t.Sampler.Sampled(key, trigger) }

// Ended takes the ends of runs. It never blocks.
func (t *Tracer) Ended(ends []job.End) {
	for i := range ends {
		e := &ends[i]
		if !t.Sampled(e.Key, e.Trace) {
			switch {
			case e.Ended == job.EndedFailed || e.Late > t.Late:
				if !t.kept.Allow() {
					t.drop(e)
					continue
				}
			case e.Attempt == 1 || !t.tried.Allow(): // only the row says whether an earlier attempt was rescued
				continue
			}
		}
		select {
		case t.ends <- *e:
		default:
			t.drop(e)
		}
	}
}

// drop counts the spans of a run that were not created: the run, its attempts and their calls.
func (t *Tracer) drop(e *job.End) { t.dropped.Add(1 + 2*int64(min(e.Attempt, 20))) }

// Run reads and exports until ctx ends, and then what is left, for a limited time.
func (t *Tracer) Run(ctx context.Context) {
	// A request that is under way when the node stops is not cancelled: sending it again could export its spans twice.
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(t.Flush):
			cancel()
		case <-last.Done():
		}
	})()
	var loops sync.WaitGroup
	loops.Go(func() {
		loop.Loop{Name: "trace", Title: "trace reading", Once: t.readOnce, Log: t.Log}.Run(ctx)
	})
	loops.Go(func() {
		loop.Loop{
			Name: "export", Title: "trace export", Log: t.Log,
			Once:    func(ctx context.Context) (time.Duration, error) { return 0, t.exportOnce(ctx, last) },
			Backoff: loop.Backoff{Min: time.Second, Max: 10 * time.Second},
		}.Run(ctx)
	})
	loops.Wait()
	t.flush(last)
}

// flush exports what is left. What it cannot export is dropped.
func (t *Tracer) flush(ctx context.Context) {
	for ctx.Err() == nil && (len(t.ends) > 0 || len(t.reading) > 0) && t.read(ctx) == nil {
	}
	for ctx.Err() == nil && (len(t.spans) > 0 || len(t.exporting) > 0) && t.export(ctx) == nil {
	}
	t.dropped.Add(t.queued.Swap(0) + int64(len(t.exporting)))
	for len(t.ends) > 0 {
		t.reading = append(t.reading, <-t.ends)
	}
	t.dropReading()
}

func (t *Tracer) dropReading() {
	for i := range t.reading {
		t.drop(&t.reading[i])
	}
	t.reading, t.reads = t.reading[:0], 0
}

// readOnce waits for ended runs and creates their spans.
func (t *Tracer) readOnce(ctx context.Context) (time.Duration, error) {
	if len(t.reading) == 0 {
		select {
		case e := <-t.ends:
			t.reading = append(t.reading, e)
		case <-ctx.Done():
			return 0, nil
		}
	}
	return readPause, t.read(ctx)
}

// read creates the spans of a batch of ended runs. If the database does not answer, the batch is kept for the next try.
func (t *Tracer) read(ctx context.Context) error {
	for len(t.reading) < readBatch && len(t.ends) > 0 {
		t.reading = append(t.reading, <-t.ends)
	}
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	runs, err := t.Store.TraceRuns(ctx, t.reading)
	if t.reads++; err != nil {
		if t.reads >= readTries {
			t.dropReading()
		}
		return err
	}
	t.reads = 0
	late := make(map[job.RunKey]bool)
	for i := range t.reading {
		if e := &t.reading[i]; e.Late > t.Late {
			late[e.Key.RunKey()] = true
		}
	}
	t.reading = t.reading[:0]
	for i := range runs {
		r := &runs[i]
		if t.Sampled(r.Key, r.Trace) || r.Status == job.EndedStatus(job.EndedFailed) || rescued(r) || late[r.RunKey()] {
			t.enqueue(spansOf(r))
		}
	}
	return nil
}

// rescued reports whether an attempt of a run was lost with its node or worker.
func rescued(r *job.Traced) bool {
	for _, a := range r.Attempts {
		if a.Outcome == job.Lost {
			return true
		}
	}
	return r.Reason == job.ReasonLost
}

// enqueue hands spans to the export, or drops them. It never blocks: the channel holds as many elements as spans may be queued.
func (t *Tracer) enqueue(spans []*tracepb.Span) {
	n := int64(len(spans))
	if t.queued.Add(n) > int64(t.Queue) {
		t.queued.Add(-n)
		t.dropped.Add(n)
		return
	}
	t.spans <- spans
}
