package oracle

import "time"

// Clock is a walk through real time in one zone: for each instant of a window,
// what the wall clock read. It is not changed after it is built.
type Clock struct {
	// unit is the length of a step, in seconds: 60, or 1 where the zone's
	// offset or a transition is not a whole minute.
	unit int64
	days []day
	gaps []gap
}

// day holds every instant at which the wall clock showed one date.
type day struct {
	date        date
	first, last int64
	readings    []reading
}

// reading is what the wall clock shows at one instant.
type reading struct {
	at    int64 // the real instant, Unix seconds
	clock int32 // what the wall showed, seconds since midnight
	// pass counts the times the wall has shown this so far, passes in all.
	pass, passes uint8
}

// gap is a stretch of readings [from, to) that the wall never showed, because
// the clock was set forward at the instant at.
type gap struct {
	at, from, to int64
}

// margin is walked on both sides of a window, so that both passes of a fold are
// seen when only one is within. No clock is set back by more than a day.
const margin = 25 * 60 * 60

// NewClock walks the window from … to in a zone.
func NewClock(loc *time.Location, from, to time.Time) *Clock {
	start := (from.Unix() - margin) / 60 * 60
	end := to.Unix() + margin
	clock, aligned := walk(loc, start, end, 60)
	if !aligned {
		clock, _ = walk(loc, start, end, 1)
	}
	return clock
}

// walk looks at the wall every unit seconds. It gives up, not aligned, when a
// step of that length could miss something.
func walk(loc *time.Location, start, end, unit int64) (clock *Clock, aligned bool) {
	clock = &Clock{unit: unit}
	index := map[int64]int{}
	var current *day
	currentDay, previous := int64(0), wallAt(loc, start)-unit
	for at := start; at <= end; at += unit {
		wall := wallAt(loc, at)
		if wall%unit != 0 {
			return nil, false
		}
		if wall != previous+unit {
			if wallAt(loc, at-1) != previous+unit-1 {
				return nil, false
			}
			if wall > previous+unit {
				clock.gaps = append(clock.gaps, gap{at: at, from: previous + unit, to: wall})
			}
		}
		previous = wall
		n, seconds := splitWall(wall)
		if current == nil || n != currentDay {
			currentDay = n
			// A clock set back over midnight returns to a date it left.
			i, seen := index[n]
			if !seen {
				i = len(clock.days)
				index[n] = i
				clock.days = append(clock.days, day{
					date: dateOf(n), first: at, readings: make([]reading, 0, secondsPerDay/unit),
				})
			}
			current = &clock.days[i]
		}
		current.readings = append(current.readings, reading{at: at, clock: seconds})
		current.last = at
	}
	for i := range clock.days {
		clock.days[i].countPasses()
	}
	return clock, true
}

// countPasses numbers the times each reading of the day was shown.
func (d *day) countPasses() {
	var shown [secondsPerDay]uint8
	for i := range d.readings {
		r := &d.readings[i]
		shown[r.clock]++
		r.pass = shown[r.clock]
	}
	for i := range d.readings {
		r := &d.readings[i]
		r.passes = shown[r.clock]
	}
}

// wallAt asks the zone database what the wall reads at an instant, as seconds
// since the wall's own 1970-01-01 00:00:00.
func wallAt(loc *time.Location, at int64) int64 {
	_, offset := time.Unix(at, 0).In(loc).Zone()
	return at + int64(offset)
}

// splitWall cuts a wall reading into days since 1970-01-01 and seconds since
// midnight.
func splitWall(wall int64) (days int64, clock int32) {
	days = wall / secondsPerDay
	if wall%secondsPerDay < 0 {
		days--
	}
	return days, int32(wall - days*secondsPerDay)
}
