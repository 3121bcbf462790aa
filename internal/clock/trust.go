package clock

import (
	"fmt"
	"time"
)

const (
	// MaxJump is how far the database clock may be off before it is in doubt. The database uses the same number:
	// belfry_clock_trusted.
	MaxJump = 30 * time.Second
	// MaxStep is how far a renewal moves the mark. After a longer gap a node has to vouch for the clock first.
	MaxStep = 10 * time.Second
	// MaxGap is how long the whole cluster may have been down before its first node asks an operator to confirm the
	// clock. If the database and all nodes share one machine, nothing else can distinguish a long outage from a wrong
	// clock.
	MaxGap = 14 * 24 * time.Hour
)

// Reading is four clocks, read together.
type Reading struct {
	Sample
	Elapsed time.Duration // here, monotonic
	Wall    time.Time     // here
}

// Trust decides whether to trust the database clock. A wrong clock that is believed starts everything that is due in
// the next year and drops the history of the last one, which cannot be undone.
type Trust struct{ base *Reading } // the last trusted reading

// Verdict is what Judge decides.
type Verdict struct {
	Doubt string // why the clock is not trusted, and what to do; empty: it is trusted
	// Vouch asks to move the mark to the time of the reading: it is trusted, and renewals alone do not move the mark
	// so far.
	Vouch bool
}

// Judge takes a reading. Any one of these witnesses is enough to trust the database clock:
//
//  1. the mark: other nodes trust this time now, or an operator has confirmed it
//  2. the time that has passed here since the last trusted reading
//  3. this node's wall clock, up to MaxGap from the mark. This is how a cluster starts that was down over the weekend,
//     a laptop that slept continues, and a wrong clock is corrected.
//
// The wall clock alone never casts doubt on a clock that another witness confirms.
func (t *Trust) Judge(r Reading) Verdict {
	switch {
	case !r.Mark.IsZero() && !r.InDoubt():
	case t.base != nil && near(r.Now, t.expected(r), MaxJump):
	case near(r.Now, r.Wall, MaxJump) && (r.Mark.IsZero() || near(r.Now, r.Mark, MaxGap)):
	default:
		return Verdict{Doubt: t.doubt(r)}
	}
	t.base = &r
	return Verdict{Vouch: r.Mark.IsZero() || !near(r.Now, r.Mark, MaxStep)}
}

// expected is the time that the database clock should show, from what has passed since the last trusted reading.
func (t *Trust) expected(r Reading) time.Time { return t.base.Now.Add(r.Elapsed - t.base.Elapsed) }

func near(a, b time.Time, most time.Duration) bool { return a.Sub(b).Abs() <= most }

// doubt explains why no witness agrees with the database clock.
func (t *Trust) doubt(r Reading) string {
	text := "the database clock shows " + format(r.Now)
	switch {
	case near(r.Now, r.Wall, MaxJump):
		text += fmt.Sprintf(", and so does this machine's, but that is %s the last time that the cluster trusted, %s",
			off(r.Now.Sub(r.Mark), "after", "before"), format(r.Mark))
	case t.base != nil:
		text += fmt.Sprintf(", %s expected; this machine's clock shows %s",
			off(r.Now.Sub(t.expected(r)), "ahead of the time", "behind the time"), format(r.Wall))
	default:
		text += fmt.Sprintf(", %s this machine's, which shows %s",
			off(r.Now.Sub(r.Wall), "ahead of", "behind"), format(r.Wall))
		if !r.Mark.IsZero() {
			text += "; the last time that the cluster trusted is " + format(r.Mark)
		}
	}
	return text + ". Set the wrong clock right, or, if the database clock is right, run: belfry clock confirm"
}

func format(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func off(d time.Duration, ahead, behind string) string {
	if d < 0 {
		return d.Round(time.Second).Abs().String() + " " + behind
	}
	return d.Round(time.Second).String() + " " + ahead
}
