package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// readSample is the time of the database, and the last time that the cluster trusted.
const readSample = `now(), (SELECT trusted_at FROM cluster WHERE only_row)`

// scanSample reads the columns of readSample, and those after them.
func scanSample(row pgx.Row, more ...any) (s clock.Sample, err error) {
	var mark *time.Time
	err = row.Scan(append([]any{&s.Now, &mark}, more...)...)
	s.Now, s.Mark = s.Now.UTC(), store.OrZero(mark).UTC()
	return s, err
}

// TrustClock records that a node trusts the clock of the database as in a sample. It does nothing if the clock or the
// mark has changed since: the next sample decides.
func (m *Members) TrustClock(ctx context.Context, s clock.Sample) error {
	const lock = `
SELECT FROM cluster
WHERE coalesce(trusted_at, 'epoch') = $2
  AND now() BETWEEN $1::timestamptz - interval '30 s' AND $1::timestamptz + interval '30 s'
FOR UPDATE`
	mark := s.Mark
	if mark.IsZero() {
		mark = time.Unix(0, 0)
	}
	var restored *job.Restore
	err := m.db.Tx(ctx, "trust the clock", func(tx pgx.Tx) error {
		restored = nil
		tag, err := tx.Exec(ctx, lock, s.Now, mark)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, restored, err = m.log.trust(ctx, tx)
		return err
	})
	if err == nil && restored != nil && m.OnRestore != nil {
		m.OnRestore(*restored)
	}
	return err
}

// missedSince notes that no node served any partition since the mark of the clock, $1: sessions were renewed meanwhile,
// and nothing worked.
const missedSince = `
UPDATE partition SET missed_from = coalesce(missed_from, $1), missed_until = now() - ` + grace + `
WHERE $1::timestamptz < now() - ` + grace + ` AND (owner IS NOT NULL OR served_until IS NOT NULL)`

// Clock returns the time of the database, and the last time that the cluster trusted.
func (a *Admin) Clock(ctx context.Context) (s clock.Sample, err error) {
	if s, err = scanSample(a.db.QueryRow(ctx, `SELECT `+readSample)); err != nil {
		return s, fmt.Errorf("read the clock: %w", err)
	}
	return s, nil
}

// ConfirmClock makes all nodes trust the clock of the database as it is now. The audit log of the default namespace
// records it.
func (a *Admin) ConfirmClock(ctx context.Context) (s clock.Sample, err error) {
	err = a.db.Tx(ctx, "confirm the clock", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM cluster FOR UPDATE`); err != nil {
			return err
		}
		if s, _, err = a.api.log.trust(ctx, tx); err != nil {
			return err
		}
		if err := store.Enter(ctx, tx, store.In(access.DefaultNamespace)); err != nil {
			return err
		}
		return a.api.log.write(ctx, tx, auditParams{access.DefaultNamespace, itself, "clock.confirm", "clock"}, struct {
			Now     time.Time `json:"now"`
			Trusted time.Time `json:"trusted,omitzero"`
		}{s.Now, s.Mark})
	})
	return s, err
}
