package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// commitLimit ends the wait for a commit that gets no reply: statement_timeout does
// not end a COMMIT that waits for a standby. The rows may be committed then, or
// become so later, so callers treat the outcome as unknown.
const (
	commitLimit   = 65 * time.Second
	rollbackLimit = 5 * time.Second
)

// inTx runs work in a transaction. ctx does not cancel the commit, because a
// cancelled COMMIT leaves open whether the rows are there; a limit of its own
// bounds it.
//
// job.ErrAlreadyDone commits too: what is returned to the caller then was written
// by another transaction, which may still wait for a standby. Work that returns it
// has locked a row, so that this commit waits as well.
func (p *Pool) inTx(ctx context.Context, what string, work func(pgx.Tx) error) error {
	unconfirmed := p.unconfirmed.Load()
	tx, err := p.conns.BeginTx(ctx, p.pooler.begin())
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	counted := &countingTx{Tx: tx}
	done := work(counted)
	if done != nil && !errors.Is(done, job.ErrAlreadyDone) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
		defer cancel()
		_ = tx.Rollback(limited) // the connection is closed if this fails too
		return fmt.Errorf("%s: %w", what, done)
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitLimit)
	defer cancel()
	err = tx.Commit(limited)
	if err == nil {
		err = p.confirmed(unconfirmed)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: commit: %w", what, err)
	case done != nil:
		return fmt.Errorf("%s: %w", what, done)
	}
	p.report(&counted.ledger)
	if p.onWake != nil && !counted.wake.Empty() {
		p.onWake(counted.wake)
	}
	return nil
}

// Observer learns what was written into the ledger, after the commit, so that it
// counts what the ledger says. Many goroutines call it.
type Observer interface {
	// Entered counts runs of a queue that entered history. A skipped range counts as its occurrences.
	Entered(queue int32, how job.Ended, why job.Reason, runs int64)
	// Skipped counts due times of a namespace that no job of a cursor runs for.
	Skipped(namespace uuid.UUID, why job.Reason, dueTimes int64)
	// Refused counts statements that failed because the server lacks what it needs to write. See Refusals.
	Refused(cause string)
}

// Ledger counts what one transaction writes into the ledger.
type Ledger struct {
	ended   map[end]int64
	skipped map[skip]int64
	runs    []job.End
}

type skip struct {
	namespace uuid.UUID
	why       job.Reason
}

type end struct {
	queue int32
	how   job.Ended
	why   job.Reason
}

// Ended counts runs of a queue that enter history.
func (l *Ledger) Ended(queue int32, how job.Ended, why job.Reason, n int64) {
	if n <= 0 {
		return
	}
	if l.ended == nil {
		l.ended = map[end]int64{}
	}
	l.ended[end{queue, how, why}] += n
}

// Skipped counts due times of a namespace that no job of a cursor runs for.
func (l *Ledger) Skipped(namespace uuid.UUID, why job.Reason, n int64) {
	if l.skipped == nil {
		l.skipped = map[skip]int64{}
	}
	l.skipped[skip{namespace, why}] += n
}

// Run notes an end of a run that had an attempt, for its spans.
func (l *Ledger) Run(e job.End) {
	if e.Attempt > 0 {
		l.runs = append(l.runs, e)
	}
}

// countingTx is a transaction of Tx with what it wrote into the ledger, and the runs it wrote that are due.
type countingTx struct {
	pgx.Tx
	ledger Ledger
	wake   job.Wake
}

// WakeOf returns where a transaction of Tx notes runs that are due immediately. If it commits, the pool reports them.
func WakeOf(tx pgx.Tx) *job.Wake {
	if c, ok := tx.(*countingTx); ok {
		return &c.wake
	}
	return &job.Wake{} // noted for nothing
}

// LedgerOf returns where a transaction of Tx counts what it writes into the
// ledger. The counts are reported if it commits.
func LedgerOf(tx pgx.Tx) *Ledger {
	if c, ok := tx.(*countingTx); ok {
		return &c.ledger
	}
	return &Ledger{} // counted for nothing
}

func (p *Pool) report(l *Ledger) {
	if p.onEnded != nil && len(l.runs) > 0 {
		p.onEnded(l.runs)
	}
	if p.observer == nil {
		return
	}
	for e, n := range l.ended {
		p.observer.Entered(e.queue, e.how, e.why, n)
	}
	for s, n := range l.skipped {
		p.observer.Skipped(s.namespace, s.why, n)
	}
}
