package member

import (
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// decision is what a member does after a survey.
type decision struct {
	alive   bool              // the member's session has not expired
	keep    []job.Ownership   // owned by the session and assigned to it
	release []job.Ownership   // owned by the session and assigned to another
	take    [][]job.Ownership // assigned to the session and free; one list for each owner that died
	awaited bool              // a live session still owns partitions that are assigned to this one
	// expiry is how long after the survey the first other session that owns partitions expires; 0: there
	// is none.
	expiry time.Duration
}

// decide compares the owners of the partitions with those that they should have. A draining session releases
// everything, even if no other session can take it yet. It is a pure function.
func decide(s job.Survey, me uuid.UUID, draining bool) decision {
	live := make(map[uuid.UUID]time.Time, len(s.Sessions))
	var candidates []job.Session
	for _, session := range s.Sessions {
		live[session.ID] = session.ExpiresAt
		if session.Owns && (session.ID != me || !draining) {
			candidates = append(candidates, session)
		}
	}
	var d decision
	if _, d.alive = live[me]; !d.alive {
		return d
	}
	assigned := Assign(candidates, s.Ownerships, s.Needs)
	lists := map[uuid.UUID]int{} // the index in take of each dead owner
	for i, o := range s.Ownerships {
		expiresAt, alive := live[o.Owner]
		if alive && o.Owner != me {
			if left := expiresAt.Sub(s.Now); d.expiry == 0 || left < d.expiry {
				d.expiry = left
			}
		}
		switch {
		case o.Owner == me && assigned[i] == me:
			d.keep = append(d.keep, o)
		case o.Owner == me && (assigned[i] != uuid.Nil || draining):
			d.release = append(d.release, o)
		case assigned[i] == me && alive:
			d.awaited = true
		case assigned[i] == me:
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
