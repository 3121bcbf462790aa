package worker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

const (
	reportDelay = 2 * time.Millisecond // how long a report waits for others to be sent with it
	maxReports  = 500
	reportBytes = 512 << 10 // approximate maximum size of one request
	// giveUp is how long a report is retried. Its session has ended by then.
	giveUp = 10 * time.Minute
)

// report is a run with its outcome.
type report struct {
	run     *Run
	outcome Outcome
}

type reportWire struct {
	Run        string          `json:"run"`
	Attempt    int             `json:"attempt"`
	Outcome    string          `json:"outcome"`
	Final      bool            `json:"final,omitempty"`
	RetryAfter int64           `json:"retry_after_ms,omitempty"`
	Message    string          `json:"message,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	trace      string          // its traceparent
}

// report sends the outcomes of runs, in batches.
func (w *Worker) report(ctx context.Context) {
	for first := range w.reports {
		var batch []reportWire
		size := w.append(&batch, first)
		timer := time.NewTimer(reportDelay)
	collect:
		for len(batch) < maxReports && size < reportBytes {
			select {
			case r, ok := <-w.reports:
				if !ok {
					break collect
				}
				size += w.append(&batch, r)
			case <-timer.C:
				break collect
			}
		}
		timer.Stop()
		if len(batch) > 0 {
			w.send(ctx, batch)
		}
	}
}

// append adds a report to the batch and returns its size, unless the run is no longer this worker's.
func (w *Worker) append(batch *[]reportWire, r report) (size int) {
	if !w.has(r.run.ID, r.run.Attempt) {
		return 0
	}
	o := r.outcome
	one := reportWire{
		Run: r.run.ID, Attempt: r.run.Attempt, Outcome: o.Kind, Final: o.Final,
		RetryAfter: min(max(o.RetryAfter, 0), maxDelay).Milliseconds(), Message: short(o.Message),
		trace: r.run.Traceparent,
	}
	if o.Kind == "succeeded" {
		_, _, one.Result = r.run.Reported()
	}
	*batch = append(*batch, one)
	return len(one.Message) + len(one.Result) + 150
}

// maxDelay is the longest delay that the server accepts.
const maxDelay = 30 * 24 * time.Hour

// short cuts a message to the length that the server accepts.
func short(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage-3], "") + "…"
}

// send sends reports until there is a reply. Sending them twice is harmless. If one report is invalid, the
// server rejects the whole batch. Then send splits it into halves, so that the valid reports are not lost.
func (w *Worker) send(ctx context.Context, batch []reportWire) {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		began := now()
		results, err := w.link.complete(ctx, batch)
		switch {
		case err == nil:
			w.batchSpan(ctx, "settle", began, tracesOf(batch, func(r *reportWire) string { return r.trace }))
			w.finish(results)
			return
		case invalid(err) && len(batch) > 1:
			half := len(batch) / 2
			w.send(ctx, batch[:half])
			w.send(ctx, batch[half:])
			return
		case invalid(err) || sessionEnded(err) || final(err) || ctx.Err() != nil:
			w.log.ErrorContext(ctx, "reports rejected, their runs are retried",
				"runs", len(batch), "run", batch[0].Run, "error", err)
			for _, r := range batch {
				w.drop(r.Run, r.Attempt)
			}
			return
		}
		w.log.WarnContext(ctx, "report failed", "runs", len(batch), "again_in", wait, "error", err)
		pause(ctx, wait)
	}
}

// invalid reports whether the server rejected the content of a request.
func invalid(err error) bool {
	switch belfry.CodeOf(err) {
	case "invalid", "bad_request", "too_large":
		return true
	default:
		return false
	}
}

type resultWire struct {
	Run      string `json:"run"`
	Attempt  int    `json:"attempt"`
	Accepted bool   `json:"accepted"`
	Reason   string `json:"reason"`
}

// finish drops the runs whose reports the server has processed.
func (w *Worker) finish(results []resultWire) {
	for _, a := range results {
		w.drop(a.Run, a.Attempt)
		if !a.Accepted && a.Reason != "reported" {
			w.log.Warn("report was too late and had no effect", "run", a.Run, "attempt", a.Attempt, "reason", a.Reason)
		}
	}
}

// complete sends reports through the session that has their runs.
func (l *link) complete(ctx context.Context, batch []reportWire) ([]resultWire, error) {
	// Whoever replaces the session waits for this request, and heartbeats wait for that.
	_, ttl := l.session()
	ctx, cancel := context.WithTimeout(ctx, min(callTimeout, ttl/2))
	defer cancel()
	id, results, err := l.sendReports(ctx, batch)
	lost := lostOf(batch, results)
	if err != nil || len(lost) == 0 {
		return results, err
	}
	// Either these runs are lost, or the session ended before its time. A heartbeat shows which: in the second
	// case another session has the runs now.
	current, err := l.sendBeat(ctx)
	if err != nil {
		return nil, errUnresolved
	}
	if current == id {
		return results, nil
	}
	_, more, err := l.sendReports(ctx, lost)
	return append(slices.DeleteFunc(results, resultWire.lost), more...), err
}

func (l *link) sendReports(ctx context.Context, batch []reportWire) (id string, results []resultWire, err error) {
	var out struct {
		Results []resultWire `json:"results"`
	}
	id, err = l.send(ctx, "complete", func() any { return map[string]any{"reports": batch} }, &out)
	var unresolved *unresolvedError
	if errors.As(err, &unresolved) {
		return id, nil, errUnresolved // the reports themselves were not rejected
	}
	return id, out.Results, err
}

func (a resultWire) lost() bool { return !a.Accepted && a.Reason == "lost" }

// lostOf returns the reports that the server did not accept because their runs are not the session's.
func lostOf(batch []reportWire, results []resultWire) (out []reportWire) {
	lost := map[string]int{} // attempt by run
	for _, a := range results {
		if a.lost() {
			lost[a.Run] = a.Attempt
		}
	}
	for _, r := range batch {
		if lost[r.Run] == r.Attempt {
			out = append(out, r)
		}
	}
	return out
}
