package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/command/runner"
	"github.com/belfry-dev/belfry/internal/target/message"
)

const (
	// maxMessage is the maximum length of a message in bytes, and maxQuoted that of the output in it.
	maxMessage = 1000
	maxQuoted  = 400
	// tempFail is EX_TEMPFAIL of sysexits.h: a temporary failure, retry later.
	tempFail = 75
	// bySignal + n is the exit code of a command that signal n killed, as in shells and bwrap.
	bySignal = 128
)

// outcome returns what the end of a command means: see the package page.
func (c *config) outcome(ctx context.Context, timeout time.Duration, r runner.Result, o *output) job.Outcome {
	written, _ := o.read()
	failed := func(retryable bool, text string) job.Outcome {
		if last := lastLines(written, maxQuoted); last != "" {
			text += ": " + last
		}
		// A command that was killed has not reported how far it got.
		unknown := r.End != runner.Exited || r.Code > bySignal
		return job.Outcome{
			Kind: job.Failed, Retryable: retryable, Unknown: unknown, Status: r.Code,
			Message: message.Clean(text, maxMessage),
		}
	}
	notRun := func(retryable bool) job.Outcome {
		return job.Outcome{
			Kind: job.Failed, Retryable: retryable, Message: message.Clean("not run: "+r.Detail, maxMessage),
		}
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
		return failed(true, "killed because it used too much: "+r.Detail)
	case runner.Refused:
		return notRun(false)
	case runner.Lost:
		return failed(true, "its result is unknown: "+r.Detail)
	default:
		r.Detail = o.showAll(r.Detail) // it may have output of the command
		return notRun(true)
	}
}

// stopping is the outcome if the node is stopping. started says whether the command had started.
func stopping(started bool) job.Outcome {
	if started {
		return job.Outcome{
			Kind: job.Failed, Retryable: true, Unknown: true,
			Message: "killed: the node is stopping, or the run was cancelled",
		}
	}
	return job.Outcome{
		Kind: job.Failed, Retryable: true, Message: "not run: the node is stopping; another one retries",
	}
}
