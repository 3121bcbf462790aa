package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/command/runner"
)

const (
	// maxMessage of an outcome, in bytes, and how much of it may be what the command wrote.
	maxMessage = 1000
	maxQuoted  = 400
	// tempFail is EX_TEMPFAIL of sysexits.h: a temporary failure, try again later.
	tempFail = 75
	// bySignal: shells tell a death by signal n as this + n, and bwrap does too.
	bySignal = 128
)

// outcome is what the end of a command means: see doc.go.
func (c *config) outcome(ctx context.Context, timeout time.Duration, r runner.Result, o *output) job.Outcome {
	text, _ := o.read()
	failed := func(retryable bool, message string) job.Outcome {
		if last := lastLines(text, maxQuoted); last != "" {
			message += ": " + last
		}
		// Who exits with a code has said what became of its work; who is killed has not.
		unknown := r.End != runner.Exited || r.Code > bySignal
		return job.Outcome{Kind: job.Failed, Retryable: retryable, Unknown: unknown, Status: r.Code, Message: clean(message, maxMessage)}
	}
	switch r.End {
	case runner.Exited:
		switch retry := r.Code == tempFail || slices.Contains(c.retryCodes, r.Code); {
		case r.Code == 0:
			return job.Outcome{Kind: job.Succeeded}
		case r.Code > bySignal && !retry:
			return failed(true, fmt.Sprintf("killed by signal %d (%s)", r.Code-bySignal, signalName(r.Code-bySignal)))
		default:
			return failed(retry, fmt.Sprintf("exited with code %d", r.Code))
		}
	case runner.TimedOut:
		return failed(true, fmt.Sprintf("killed: it was not done within %s", timeout))
	case runner.Stopped:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return failed(true, fmt.Sprintf("killed: it was not done within %s", timeout))
		}
		return stopping(true)
	case runner.TooMuch:
		return failed(true, "killed for what it took: "+r.Detail)
	case runner.Refused:
		return job.Outcome{Kind: job.Failed, Message: clean("not run: "+r.Detail, maxMessage)}
	case runner.Lost:
		return failed(true, "what became of it is not known: "+r.Detail)
	default:
		return job.Outcome{Kind: job.Failed, Retryable: true, Message: clean("not run: "+r.Detail, maxMessage)}
	}
}

// stopping is the outcome of what a stop of the node ended or kept from starting.
func stopping(begun bool) job.Outcome {
	if begun {
		return job.Outcome{Kind: job.Failed, Retryable: true, Unknown: true, Message: "killed: the node is stopping, or the run was cancelled"}
	}
	return job.Outcome{Kind: job.Failed, Retryable: true, Message: "not run: the node is stopping; another one tries again"}
}
