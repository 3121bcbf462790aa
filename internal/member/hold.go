package member

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/belfry-dev/belfry/internal/job"
)

// What a member holds changes here alone. Order matters: calls is locked before
// the change and until its callback returned, so callbacks come in the order of
// the changes. Only drop changes first: Owns must be false at once, however
// long an OnGain takes. No other change can come between, as the holding that
// drop leaves has no lease, and the next one is made by whoever dropped it.

// gain adds partitions to the lease, if it is still the one held.
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

// lose removes those of the partitions that which says, if the lease is still the one held.
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
	m.lost(l, lost)
	return len(lost)
}

// change replaces the holding of a lease by one with other partitions, if edit says so.
func (m *Member) change(l *lease, edit func(epochs map[int16]int64) bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.held.Load()
	if h.lease != l {
		return false
	}
	epochs := maps.Clone(h.epochs)
	if !edit(epochs) {
		return false
	}
	m.held.Store(&holding{l, epochs})
	return true
}

// drop ends the trust in a session and loses everything, at once.
func (m *Member) drop(l *lease, why string) {
	m.mu.Lock()
	h := m.held.Load()
	if l == nil || h.lease != l {
		m.mu.Unlock()
		return
	}
	l.until.Store(0)
	m.held.Store(&holding{})
	m.mu.Unlock()
	l.end() // an OnGain under way has no reason to go on
	level := slog.LevelWarn
	if m.draining() {
		level = slog.LevelInfo // as it should be
	}
	m.o.Log.Log(l.ctx, level, "session dropped", "session", l.session, "reason", why)
	if len(h.epochs) > 0 {
		m.calls.Lock()
		defer m.calls.Unlock()
		m.lost(l, slices.Collect(maps.Keys(h.epochs)))
	}
}

// lost tells of partitions. The caller has locked calls.
func (m *Member) lost(l *lease, lost []int16) {
	slices.Sort(lost)
	m.o.Log.Info("partitions lost", "session", l.session, "count", len(lost))
	if m.o.OnLose != nil {
		m.o.OnLose(lost)
	}
}
