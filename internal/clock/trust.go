package clock

import "time"

// MaxJump is how far the database's clock may be off from the time that has passed here before planning stops.
const MaxJump = 30 * time.Second

// Reading is three clocks, read together.
type Reading struct {
	Database time.Time
	Elapsed  time.Duration // here, monotonic
	Wall     time.Time     // here
}

// Trust is whether the database's clock is believed: it has moved on as time has
// passed here. The zero value believes the first reading, whatever it is: the
// clock of a node decides nothing.
type Trust struct{ base *Reading } // the last that was believed

// Judge takes a reading and says how far the database's clock has jumped, ahead
// or (negative) back; 0: it is believed. A jump to where the wall clock of
// this node is was a correction. Any other lasts until the clock is back: if
// everything of the next year were due now, it could not be undone.
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
