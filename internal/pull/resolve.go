package pull

import (
	"context"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/claim"
	"github.com/belfry-dev/belfry/internal/job"
)

// maxResolved is how many sessions one round asks about. The others are left for the next one.
const maxResolved = 100

// resolve finds out which runs are leased, session by session, until a question fails. Runs of the session
// whose question failed are last in what is left: others are asked about first, in case it alone fails.
func (p *Puller) resolve(ctx context.Context, runs []undelivered) (leased, left []undelivered, err error) {
	var sessions []uuid.UUID
	bySession := map[uuid.UUID][]undelivered{}
	for _, r := range runs {
		if r.Attempt > 0 {
			leased = append(leased, r)
			continue
		}
		if bySession[r.Session] == nil {
			sessions = append(sessions, r.Session)
		}
		bySession[r.Session] = append(bySession[r.Session], r)
	}
	var failed []undelivered
	for n, session := range sessions {
		own := bySession[session]
		if err != nil || n >= maxResolved {
			left = append(left, own...)
			continue
		}
		var found []undelivered
		if found, err = p.resolveSession(ctx, session, own); err != nil {
			failed = own
		}
		leased = append(leased, found...)
	}
	return leased, append(left, failed...), err
}

// resolveSession asks about unresolved claims for one session, and returns those that did lease their run.
func (p *Puller) resolveSession(
	ctx context.Context, session uuid.UUID, runs []undelivered,
) (leased []undelivered, err error) {
	ctx, cancel := context.WithTimeout(ctx, claimLimit)
	defer cancel()
	got, err := claim.Resolve(ctx, p.Store, session, runs, func(r undelivered) job.Key { return r.Key })
	if err != nil {
		return nil, err
	}
	for i := range got.Claimed {
		got.Claimed[i].Attempt = got.Attempts[i].Number
	}
	p.undelivered.resolved(runs)
	var ended []job.Key
	for _, r := range got.Rest {
		ended = append(ended, r.Key)
	}
	p.runsEnded(runs[0].queue, ended) // the rest can be claimed again
	return got.Claimed, nil
}
