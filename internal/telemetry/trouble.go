package telemetry

import "log/slog"

// steady is after how many failures in a row the gaps between lines no longer grow.
const steady = 256

// Trouble logs a failure that lasts without flooding the log: the first, second, fourth, eighth time and
// so on, every 256th time from the 256th on, and once when it is over. A database that is down for an hour
// and is retried every two seconds gets 15 lines instead of 1,800. Trouble counts failures and needs no
// clock, because callers back off.
//
// It belongs to one loop and is not safe for concurrent use.
type Trouble struct{ failures int }

// Failed counts a failure, and logs it unless it was logged often enough. The message is constant;
// details belong in args.
func (t *Trouble) Failed(log *slog.Logger, message string, err error, args ...any) {
	t.failures++
	if t.failures%steady != 0 && t.failures&(t.failures-1) != 0 {
		return
	}
	log.Warn(message, append(args, "error", err, "failures", t.failures)...)
}

// Worked logs the recovery if there were failures.
func (t *Trouble) Worked(log *slog.Logger, message string, args ...any) {
	if t.failures == 0 {
		return
	}
	log.Info(message, append(args, "failures", t.failures)...)
	t.failures = 0
}
