package member

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/belfry-dev/belfry/internal/job"
)

// Only this file changes the partitions of a member. Order matters: calls is locked before a change and
// until its callback has returned, so callbacks come in the order of the changes. Only endTrust makes its
// change before it locks calls: Owns must return false immediately, however long an OnGain takes. No
// other change can come between, because it leaves a snapshot without partitions and without a lease that
// could gain some, and the goroutine that assigns partitions does nothing else meanwhile.

// gain adds partitions to the session, if it is still the current one.
func (m *Member) gain(ctx context.Context, l *lease, gained []job.Ownership) int {
	if len(gained) == 0 {
		return 0
	}
	m.calls.Lock()
	defer m.calls.Unlock()
	if !m.change(l, func(epochs map[int16]int64) bool {
		for _, o := range gained {
			epochs[o.Partition] = o.Epoch
		}
		return !m.draining() && l.valid()
	}) {
		return 0
	}
	m.o.Log.Info("partitions gained", "session", l.session, "count", len(gained))
	if m.o.OnGain != nil {
		m.o.OnGain(ctx, gained)
	}
	return len(gained)
}

// lose removes the partitions that which selects, if the session is still the current one.
func (m *Member) lose(l *lease, which func(partition int16, epoch int64) bool) int {
	m.calls.Lock()
	defer m.calls.Unlock()
	var lost []int16
	if !m.change(l, func(epochs map[int16]int64) bool {
		for p, epoch := range epochs {
			if which(p, epoch) {
				lost = append(lost, p)
				delete(epochs, p)
			}
		}
		return len(lost) > 0
	}) {
		return 0
	}
	m.reportLost(l, lost)
	return len(lost)
}

// change replaces the partitions of the current session, if it is l and edit returns true.
func (m *Member) change(l *lease, edit func(epochs map[int16]int64) bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.current.Load()
	if h.lease != l {
		return false
	}
	epochs := maps.Clone(h.epochs)
	if !edit(epochs) {
		return false
	}
	m.current.Store(&snapshot{l, epochs})
	return true
}

// suspend ends the trust in a session, which may be renewed later, and loses all its partitions immediately.
func (m *Member) suspend(l *lease, why string) { m.endTrust(l, l, "session suspended", why) }

// drop gives a session up and loses all its partitions immediately.
func (m *Member) drop(l *lease, why string) { m.endTrust(l, nil, "session dropped", why) }

func (m *Member) endTrust(l, next *lease, message, why string) {
	m.mu.Lock()
	h := m.current.Load()
	if l == nil || h.lease != l || next == l && l.ctx.Err() != nil {
		m.mu.Unlock()
		return
	}
	l.until.Store(0)
	l.end() // an OnGain in progress has no reason to go on
	m.current.Store(&snapshot{next, map[int16]int64{}})
	m.mu.Unlock()
	level := slog.LevelWarn
	if m.draining() {
		level = slog.LevelInfo // expected
	}
	m.o.Log.Log(l.ctx, level, message, "session", l.session, "reason", why)
	if len(h.epochs) > 0 {
		m.calls.Lock()
		defer m.calls.Unlock()
		m.reportLost(l, slices.Collect(maps.Keys(h.epochs)))
	}
}

// reportLost calls OnLose. The caller has locked calls.
func (m *Member) reportLost(l *lease, lost []int16) {
	slices.Sort(lost)
	m.o.Log.Info("partitions lost", "session", l.session, "count", len(lost))
	if m.o.OnLose != nil {
		m.o.OnLose(lost)
	}
}
