package oracle

import "time"

// Every lists anchor, anchor+d, anchor+2d, … after from up to and including to,
// in UTC. Nothing occurs before the anchor. It counts from the anchor on, one
// by one, so keep the anchor within reach of the window.
func Every(anchor time.Time, d time.Duration, from, to time.Time) []time.Time {
	if d <= 0 {
		return nil
	}
	var occurrences []time.Time
	for at := anchor; !at.After(to); at = at.Add(d) {
		if at.After(from) {
			occurrences = append(occurrences, at.UTC())
		}
	}
	return occurrences
}

// At is the one occurrence of a single instant, if it is after from and not
// after to.
func At(at, from, to time.Time) []time.Time {
	if at.After(from) && !at.After(to) {
		return []time.Time{at.UTC()}
	}
	return nil
}
