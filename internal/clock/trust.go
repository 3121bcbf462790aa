package clock

import "time"

// MaxJump is how far the database clock may be off from the time that has passed here before planning stops.
const MaxJump = 30 * time.Second

// Reading is three clocks, read together.
type Reading struct {
	Database time.Time
	Elapsed  time.Duration // here, monotonic
	Wall     time.Time     // here
}

// Trust decides whether to trust the database clock: it must advance as time passes here. The zero value trusts the
// first reading, because a node's own clock decides nothing.
type Trust struct{ base *Reading } // the last trusted reading

// Judge takes a reading and returns how far the database clock has jumped, ahead or (negative) back. 0 means that the
// clock is trusted. A jump to the time of this node's wall clock is a correction and is trusted. Any other jump lasts
// until the clock is back: starting everything that is due in the next year could not be undone.
func (t *Trust) Judge(r Reading) (jump time.Duration) {
	if t.base != nil {
		jump = r.Database.Sub(t.base.Database) - (r.Elapsed - t.base.Elapsed)
	}
	if jump.Abs() <= MaxJump || r.Database.Sub(r.Wall).Abs() <= MaxJump {
		t.base = &r
		return 0
	}
	return jump
}
