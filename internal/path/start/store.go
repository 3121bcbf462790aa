package start

import (
	"context"
	"embed"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/finish"
	"github.com/belfry-dev/belfry/internal/store"
)

// Each file says what its parameters are, and psql can PREPARE it as it is.
//
//go:embed *.sql
var files embed.FS

var (
	statement = store.Statements(files, ".")

	lockRuns  = statement("lock")
	lockLive  = statement("live")
	startRuns = statement("start")
)

// Store starts runs. It keeps state between calls, so the loops of a node have one.
type Store struct {
	db    store.All
	marks lowMarks
}

// New returns a Store.
func New(db store.All) *Store { return &Store{db: db} }

// Admit starts runs that Claim leaves, as far as the policies and limits of their jobs allow, in one transaction, and
// returns the result for each. The policy may say start, wait (then the result says nothing else), skip, or replace. A
// run that may start needs a permit of each limit that it falls under. Nothing is decided before a run is due: what it
// overlaps with may end by then.
//
// No two keys may belong to the same job if its policy looks at its other runs: what is decided about one run changes
// what is right for the next.
func (s *Store) Admit(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Admitted, error) {
	runs := make([]*candidate, len(keys))
	for i, k := range keys {
		runs[i] = &candidate{key: k, session: session}
	}
	if err := s.admitInTx(ctx, &batch{session: session, runs: runs}, lead); err != nil {
		return nil, err
	}
	for _, c := range runs {
		if !c.out.Alone {
			continue
		}
		one := &batch{session: session, runs: []*candidate{c}, alone: true}
		if err := s.admitInTx(ctx, one, lead); err != nil && !errors.Is(err, ErrNoPermit) {
			return nil, err
		}
	}
	return s.admitted(ctx, runs)
}

// AdmitWaiting is Admit for runs that fall under limits and are due. It locks their limits before the runs: a node that
// finds that another one has them has written nothing, and need not wait for its commit. Even if no permit is left, the
// policy is asked: it may skip a run, or replace the one that has the permit. Runs that replace others are Alone.
func (s *Store) AdmitWaiting(ctx context.Context, session uuid.UUID, waiting []job.Run) ([]job.Admitted, error) {
	runs, candidates := make([]*candidate, len(waiting)), make([]job.Candidate, len(waiting))
	for i, r := range waiting {
		runs[i] = &candidate{key: r.Key, session: session}
		candidates[i] = job.Candidate{
			Queue: r.Queue, Key: r.ConcurrencyKey, KeyMax: r.ConcurrencyMax, Priority: r.Priority, RunAt: r.RunAt,
		}
	}
	err := s.db.Tx(ctx, "admit", func(tx pgx.Tx) error {
		b := &batch{tx: tx, session: session}
		var first pgx.Batch
		first.Queue(`SELECT pg_advisory_xact_lock_shared($1), `+string(store.KeyLookups), store.SessionLock(session))
		var err error
		if b.capacity, err = s.readCapacity(ctx, b, limitsOf(candidates), &first); err != nil {
			return err
		}
		for i, c := range runs {
			if refusal := refuse(&candidates[i], b.capacity.of, b.capacity.now); refusal.Busy {
				c.out = job.Admitted{Refusal: refusal}
				continue
			}
			b.runs = append(b.runs, c)
		}
		if len(b.runs) == 0 {
			return nil
		}
		return s.admit(ctx, b, &pgx.Batch{}, 0)
	})
	if err != nil {
		return nil, err
	}
	return s.admitted(ctx, runs)
}

// admitted returns the result for each run.
func (s *Store) admitted(ctx context.Context, runs []*candidate) ([]job.Admitted, error) {
	out, started := make([]job.Admitted, len(runs)), make([]*job.Attempt, 0, len(runs))
	for i, c := range runs {
		if out[i] = c.out; c.out.Claimed != nil {
			started = append(started, &c.out.Claimed.Attempt)
		}
	}
	return out, s.ReadContents(ctx, store.AsEngine, started)
}

func (s *Store) admitInTx(ctx context.Context, b *batch, lead time.Duration) error {
	return s.db.Tx(ctx, "admit", func(tx pgx.Tx) error {
		b.tx = tx
		var first pgx.Batch
		first.Queue(`SELECT pg_advisory_xact_lock_shared($1), `+string(store.KeyLookups), store.SessionLock(b.session))
		return s.admit(ctx, b, &first, lead)
	})
}

// Wanted is a run that a worker would get.
type Wanted struct {
	Key     job.Key
	Handler string
	Session uuid.UUID // of the worker
}

// MaxRuns is how many runs one transaction may start: the increment of the sequence permit_number.
const MaxRuns = 1000

// AdmitFor is Admit for workers of a queue, in a transaction that has locked the queue and their sessions. A run that
// replaces others under a limit is decided only if it is alone. If it then gets no permit, the error is ErrNoPermit, and
// the caller undoes the transaction. Runs that are too many bytes for one reply stay as they are. The caller calls
// ReadContents after the transaction.
func (s *Store) AdmitFor(ctx context.Context, tx pgx.Tx, queue int32, wanted []Wanted, alone bool) ([]job.Admitted, error) {
	b := &batch{tx: tx, queue: &queue, alone: alone, runs: make([]*candidate, len(wanted))}
	for i, w := range wanted {
		b.runs[i] = &candidate{key: w.Key, session: w.Session, wantedBy: w.Handler}
	}
	err := s.admit(ctx, b, &pgx.Batch{}, 0)
	out := make([]job.Admitted, len(b.runs))
	for i, c := range b.runs {
		out[i] = c.out
	}
	return out, err
}

// ErrNoPermit undoes an admission: a run that replaces others and gets no permit must not end them.
var ErrNoPermit = errors.New("no permit")

// candidate is one run on its way to a decision.
type candidate struct {
	job.Candidate
	key      job.Key
	session  uuid.UUID // that wants to start it
	wantedBy string    // the handler of a worker

	found   bool // and locked
	in      Input
	admit   job.AdmitRule
	address string
	handler string
	size    int  // bytes of its payload
	limited bool // it falls under a limit

	queuePermit, keyPermit *int64 // the numbers of its permits; nil: it needs none
	out                    job.Admitted
}

// batch is runs of different jobs that one transaction decides about.
type batch struct {
	tx      pgx.Tx
	session uuid.UUID // of a node
	queue   *int32    // of workers; nil: a node asks
	runs    []*candidate
	alone   bool      // the transaction can be undone for its only run
	now     time.Time // of the transaction
	// capacity is that of the limits which the transaction has read already; nil: of none.
	capacity *capacities
}

// admit locks the runs, asks Decide about those that were found, and carries the decisions out. first is sent before.
func (s *Store) admit(ctx context.Context, b *batch, first *pgx.Batch, lead time.Duration) error {
	if err := b.read(ctx, first, lead); err != nil {
		return err
	}
	var ends pgx.Batch
	var starts, replacing []*candidate
	size := 0
	for _, c := range b.runs {
		if !c.found || c.RunAt.After(c.in.Now) {
			c.out.Later = c.found || c.out.Later // claimed a little before its time, but decided when it is due
			continue
		}
		switch decision := Decide(c.in); decision.Verdict {
		case Waits:
			c.out.Expires = c.in.expires()
			continue
		case Skips:
			c.out.Done, c.out.Skipped = true, true
			b.end(&ends, c.key, c.Queue, job.EndedSkipped, decision.Reason)
			continue
		case Replaces:
			if c.out.Alone = c.limited && !b.alone; c.out.Alone {
				continue
			}
			replacing = append(replacing, c)
		case Starts:
			starts = append(starts, c)
		}
		// Once the bytes are used up, small runs wait too: otherwise large ones would always be last.
		if size += c.size; b.queue != nil && size > job.MaxClaimBytes && len(starts)+len(replacing) > 1 {
			c.out.Done = true
		}
	}
	left := func(c *candidate) bool { return c.out.Done }
	replacing, err := b.endReplaced(ctx, &ends, slices.DeleteFunc(replacing, left))
	if err != nil {
		return err
	}
	return s.start(ctx, b, &ends, append(slices.DeleteFunc(starts, left), replacing...))
}

// read locks the runs and reads what the decisions need.
func (b *batch) read(ctx context.Context, first *pgx.Batch, lead time.Duration) error {
	// In the order in which other statements lock runs.
	sorted := slices.SortedFunc(slices.Values(b.runs), func(x, y *candidate) int { return store.CompareKeys(x.key, y.key) })
	k := store.SplitKeys(keysOf(sorted))
	first.Queue(
		lockRuns, k.Partition, k.Job, k.DueAt, k.Seq, b.session, lead, b.queue, job.MaxQueued,
	).Query(func(rows pgx.Rows) error { return b.collect(rows, sorted) })
	return b.tx.SendBatch(ctx, first).Close()
}

func keysOf(runs []*candidate) []job.Key {
	keys := make([]job.Key, len(runs))
	for i, c := range runs {
		keys[i] = c.key
	}
	return keys
}

func (b *batch) collect(rows pgx.Rows, runs []*candidate) error {
	var c candidate
	var n int
	var soon bool
	var at *time.Time
	var policy *string
	in := &c.in
	_, err := pgx.ForEachRow(rows, []any{
		&n, &c.found, &at, &soon, &in.Now, &c.address, &c.RunAt, &in.Attempt, &in.Deferred, &in.Origin, &c.Priority,
		&c.Queue, &c.Key, &c.KeyMax, &c.limited, &c.handler, &c.size, &in.JobState, &c.admit, &policy, &in.Running,
		&in.Busy, &in.Ahead,
	}, func() error {
		to := runs[n]
		b.now, c.key, c.session, c.wantedBy = in.Now, to.key, to.session, to.wantedBy
		c.out = job.Admitted{}
		switch {
		case c.found && c.handler != c.wantedBy: // its job was edited: a scan finds it where it is now
			c.found, c.out.Done = false, true
		case c.found:
			in.DueAt = c.key.DueAt
			in.Overlap, in.Deadline = job.OverlapAllow, 0
			if c.admit != job.AdmitFreely {
				p := job.ReadPolicy(policy)
				in.Overlap, in.Deadline = p.Overlap, p.Deadline
			}
		case at == nil || b.queue != nil: // claimed, gone or not ours
			c.out.Done = true
		case !soon:
			c.out = job.Admitted{Done: true, RunAt: *at}
		default: // a change of the job has locked it, or a time without service is not decided yet
			c.out.Later = true
		}
		*to = c
		return nil
	})
	return err
}

func (b *batch) end(ends *pgx.Batch, k job.Key, queue int32, how job.Ended, why job.Reason) {
	finish.Ending{Key: k, Queue: queue, Now: b.now, Ended: how, Reason: why}.Add(b.tx, ends)
}

// endReplaced ends the live runs of jobs, which frees their permits, and returns the runs that replace them. Their
// attempts may still be under way; what they report is fenced. If another transaction has a live run, the caller asks
// again.
func (b *batch) endReplaced(ctx context.Context, ends *pgx.Batch, by []*candidate) ([]*candidate, error) {
	if len(by) == 0 {
		return nil, nil
	}
	k := store.SplitKeys(keysOf(by))
	rows, err := b.tx.Query(ctx, lockLive, k.Partition, k.Job)
	if err != nil {
		return nil, err
	}
	type liveRun struct {
		job.End
		queue int32
	}
	live := map[uuid.UUID][]liveRun{}
	r := liveRun{End: job.End{Ended: job.EndedCancelled}}
	_, err = pgx.ForEachRow(rows, []any{
		&r.Key.Partition, store.Raw(&r.Key.Job), &r.Key.DueAt, &r.Key.Seq, &r.queue, &r.Attempt, &r.Trace,
	}, func() error {
		live[r.Key.Job] = append(live[r.Key.Job], r)
		return nil
	})
	return slices.DeleteFunc(by, func(c *candidate) bool {
		runs := live[c.key.Job]
		if len(runs) < c.in.Running {
			return true
		}
		for _, r := range runs {
			b.end(ends, r.Key, r.queue, r.Ended, job.ReasonReplaced)
			store.LedgerOf(b.tx).Run(r.End)
		}
		return false
	}), err
}

// start sends the batch and starts the runs that get their permits.
func (s *Store) start(ctx context.Context, b *batch, ends *pgx.Batch, runs []*candidate) error {
	var limited []*candidate
	for _, c := range runs {
		if c.limited {
			limited = append(limited, c)
		}
	}
	if len(limited) > 0 {
		if ends.Len() > 0 { // permits that it frees may be granted
			if err := b.tx.SendBatch(ctx, ends).Close(); err != nil {
				return err
			}
			ends = &pgx.Batch{}
		}
		if err := s.grantPermits(ctx, b, limited, ends); err != nil {
			return err
		}
	}
	var address []string
	var session pgtype.FlatArray[pgtype.UUID]
	var queuePermit, keyPermit []*int64
	of := make(map[job.RunKey]*candidate, len(runs))
	for _, c := range runs {
		if c.out.Refusal != (job.Refusal{}) {
			if b.alone {
				return ErrNoPermit
			}
			continue
		}
		address, session = append(address, c.address), append(session, pgtype.UUID{Bytes: c.session, Valid: true})
		queuePermit, keyPermit = append(queuePermit, c.queuePermit), append(keyPermit, c.keyPermit)
		of[c.key.RunKey()] = c
	}
	if len(of) > 0 {
		ends.Queue(startRuns, address, session, queuePermit, keyPermit).Query(func(rows pgx.Rows) error {
			return forEachClaimed(rows, func(claimed job.Claimed) {
				if c := of[claimed.Key.RunKey()]; c != nil {
					claimed.Limits = c.limits()
					c.out.Claimed, c.out.Done = &claimed, true
				}
			})
		})
	}
	if ends.Len() == 0 {
		return nil
	}
	if err := b.tx.SendBatch(ctx, ends).Close(); err != nil {
		return err
	}
	for _, c := range of {
		if c.out.Claimed == nil {
			return errors.New("an admitted run is gone although its row is locked")
		}
	}
	return nil
}
