package telemetry

import "log/slog"

// steady is after how many failures in a row the gaps between lines no longer grow.
const steady = 256

// Trouble tells of what is tried again and again and fails: the first time, the
// second, fourth, eighth and so on, from the 256th on each 256th time, and once
// when it works again. A database that is away for an hour, asked every two
// seconds, is then 15 lines and not 1,800. It counts and looks at no clock,
// because who retries waits longer and longer himself.
//
// Each belongs to one loop; it is not safe for concurrent use.
type Trouble struct{ failures int }

// Failed logs a failure, unless enough was said about it already. The message
// is constant; what differs belongs into args.
func (t *Trouble) Failed(log *slog.Logger, message string, err error, args ...any) {
	t.failures++
	if t.failures%steady != 0 && t.failures&(t.failures-1) != 0 {
		return
	}
	log.Warn(message, append(args, "error", err, "failures", t.failures)...)
}

// Worked logs, after failures, that they are over.
func (t *Trouble) Worked(log *slog.Logger, message string, args ...any) {
	if t.failures == 0 {
		return
	}
	log.Info(message, append(args, "failures", t.failures)...)
	t.failures = 0
}
