package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
)

var startRuns = statement("start")

// start is runs that are about to start, one row each. Their rows are locked, so
// that their addresses hold.
type start struct {
	address                []string
	session                pgtype.FlatArray[pgtype.UUID]
	queuePermit, keyPermit []*int64
	limits                 map[job.RunKey][]job.Limit
}

// add adds a run that the session starts with the permits that it was granted.
func (s *start) add(address string, session uuid.UUID, run *permitCandidate, p *permit) {
	s.address = append(s.address, address)
	s.session = append(s.session, pgtype.UUID{Bytes: session, Valid: true})
	s.queuePermit, s.keyPermit = append(s.queuePermit, p.queue), append(s.keyPermit, p.key)
	if limits := p.limits(&run.Candidate); len(limits) > 0 {
		if s.limits == nil {
			s.limits = map[job.RunKey][]job.Limit{}
		}
		s.limits[run.key.RunKey()] = limits
	}
}

// run starts them and returns their attempts.
func (s *start) run(ctx context.Context, tx pgx.Tx) (out []job.Claimed, err error) {
	var batch pgx.Batch
	s.queue(&batch, &out)
	return out, tx.SendBatch(ctx, &batch).Close()
}

// queue is run as part of a batch.
func (s *start) queue(batch *pgx.Batch, out *[]job.Claimed) {
	if len(s.address) == 0 {
		return
	}
	batch.Queue(startRuns, s.address, s.session, s.queuePermit, s.keyPermit).Query(func(rows pgx.Rows) error {
		return forEachClaimed(rows, func(c job.Claimed) {
			c.Limits = s.limits[c.Key.RunKey()]
			*out = append(*out, c)
		})
	})
}
