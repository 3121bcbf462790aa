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
	reportDelay = 2 * time.Millisecond // a report waits so long for company
	maxReports  = 500
	reportBytes = 512 << 10 // in one request, about
	// giveUp is how long a report is tried. Its session is over by then.
	giveUp = 10 * time.Minute
)

// report is a run and what it came to.
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
}

// report sends what runs came to, those that came while the last were under way
// together.
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

// append adds a report, unless the run is no longer ours.
func (w *Worker) append(batch *[]reportWire, r report) (size int) {
	if !w.has(r.run.ID, r.run.Attempt) {
		return 0
	}
	o := r.outcome
	one := reportWire{
		Run: r.run.ID, Attempt: r.run.Attempt, Outcome: o.Kind, Final: o.Final, RetryAfter: min(max(o.RetryAfter, 0), maxDelay).Milliseconds(), Message: short(o.Message),
	}
	if o.Kind == "succeeded" {
		_, _, one.Result = r.run.Told()
	}
	*batch = append(*batch, one)
	return len(one.Message) + len(one.Result) + 150
}

// maxDelay is what the server takes.
const maxDelay = 30 * 24 * time.Hour

// short cuts a message to what the server takes.
func short(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage-3], "") + "…"
}

// send sends reports until there is an answer: twice is harmless. The server
// refuses them all if it does not understand one of them; then they are sent by
// halves, so that the others are not lost.
func (w *Worker) send(ctx context.Context, batch []reportWire) {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	for wait := firstWait; ; wait = min(2*wait, longWait) {
		answers, err := w.link.complete(ctx, batch)
		switch {
		case err == nil:
			w.settle(answers)
			return
		case refused(err) && len(batch) > 1:
			half := len(batch) / 2
			w.send(ctx, batch[:half])
			w.send(ctx, batch[half:])
			return
		case refused(err) || gonePast(err) || final(err) || ctx.Err() != nil:
			w.log.ErrorContext(ctx, "reports were refused; their runs are tried again", "runs", len(batch), "run", batch[0].Run, "error", err)
			for _, r := range batch {
				w.drop(r.Run, r.Attempt)
			}
			return
		}
		w.log.WarnContext(ctx, "report failed", "runs", len(batch), "again_in", wait, "error", err)
		pause(ctx, wait)
	}
}

// refused says that a request is wrong in itself.
func refused(err error) bool {
	switch belfry.CodeOf(err) {
	case "invalid", "bad_request", "too_large":
		return true
	default:
		return false
	}
}

type answerWire struct {
	Run      string `json:"run"`
	Attempt  int    `json:"attempt"`
	Accepted bool   `json:"accepted"`
	Why      string `json:"why"`
}

func (w *Worker) settle(answers []answerWire) {
	for _, a := range answers {
		w.drop(a.Run, a.Attempt)
		if !a.Accepted && a.Why != "reported" {
			w.log.Warn("a report came too late and changed nothing", "run", a.Run, "attempt", a.Attempt, "why", a.Why)
		}
	}
}

// complete sends reports through the session that has their runs.
func (l *link) complete(ctx context.Context, batch []reportWire) ([]answerWire, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	id, answers, err := l.sendReports(ctx, batch)
	lost := lostOf(batch, answers)
	if err != nil || len(lost) == 0 {
		return answers, err
	}
	// They are, or the session was over before its time: a heartbeat tells, and then
	// another one has their runs.
	now, err := l.sendBeat(ctx)
	if err != nil {
		return nil, errUnsettled
	}
	if now == id {
		return answers, nil
	}
	_, more, err := l.sendReports(ctx, lost)
	return append(slices.DeleteFunc(answers, answerWire.lost), more...), err
}

func (l *link) sendReports(ctx context.Context, batch []reportWire) (id string, answers []answerWire, err error) {
	var out struct {
		Answers []answerWire `json:"answers"`
	}
	id, err = l.send(ctx, "complete", func() any { return map[string]any{"reports": batch} }, &out)
	var unsettled *unsettledError
	if errors.As(err, &unsettled) {
		return id, nil, errUnsettled // the reports are not at fault
	}
	return id, out.Answers, err
}

func (a answerWire) lost() bool { return !a.Accepted && a.Why == "lost" }

// lostOf is the reports that were not taken as their runs are not the session's.
func lostOf(batch []reportWire, answers []answerWire) (out []reportWire) {
	lost := map[string]int{} // attempt by run
	for _, a := range answers {
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
