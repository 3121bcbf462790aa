package member

import (
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// decision is what a member does about a survey.
type decision struct {
	alive   bool              // the member's session has not expired
	keep    []job.Ownership   // the session's, and rightly so
	release []job.Ownership   // the session's, but another's by right
	take    [][]job.Ownership // the session's by right, and free; one list for each owner that died
	awaited bool              // a live session still owns what is this session's by right
	expiry  time.Duration     // from the survey to the first expiry of another session that owns partitions; 0: there is none
}

// decide is pure. A session that drains gives up everything, also what nobody
// else can take yet.
func decide(s job.Survey, me uuid.UUID, draining bool) decision {
	live := make(map[uuid.UUID]time.Time, len(s.Sessions))
	var candidates []uuid.UUID
	for _, session := range s.Sessions {
		live[session.ID] = session.ExpiresAt
		if session.Owns && (session.ID != me || !draining) {
			candidates = append(candidates, session.ID)
		}
	}
	var d decision
	if _, d.alive = live[me]; !d.alive {
		return d
	}
	right := Assign(candidates, len(s.Ownerships))
	lists := map[uuid.UUID]int{} // of an owner in take
	for i, o := range s.Ownerships {
		expiresAt, alive := live[o.Owner]
		if alive && o.Owner != me {
			if left := expiresAt.Sub(s.Now); d.expiry == 0 || left < d.expiry {
				d.expiry = left
			}
		}
		switch {
		case o.Owner == me && right[i] == me:
			d.keep = append(d.keep, o)
		case o.Owner == me && (right[i] != uuid.Nil || draining):
			d.release = append(d.release, o)
		case right[i] == me && alive:
			d.awaited = true
		case right[i] == me:
			at, ok := lists[o.Owner]
			if !ok {
				at = len(d.take)
				lists[o.Owner] = at
				d.take = append(d.take, nil)
			}
			d.take[at] = append(d.take[at], o)
		}
	}
	return d
}
