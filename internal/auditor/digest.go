package auditor

import "time"

// Digest is a sum over due times, whatever their order. A pass over a day of history has one for each job: if it equals
// that of what the schedule demands, each due time has exactly one entry, and the job needs no further look.
type Digest struct {
	Count int64
	Sum   uint64
}

// Pass is what a pass over a day of history found for a job.
type Pass struct {
	Digest
	// DayBefore: an entry of the day before ended on this day. When that day was judged, it was not there yet.
	DayBefore bool
}

// Add adds a due time, in microseconds since 1970.
func (d *Digest) Add(due int64) {
	d.Count++
	// The sum of the times themselves would miss two errors that add up to zero.
	x := uint64(due) * 0x9e3779b97f4a7c15
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	d.Sum += x ^ x>>32
}

// Spoil makes the digest unlike that of any schedule: something about the job must be judged entry by entry.
func (d *Digest) Spoil() { d.Count = -1 << 31 }

// Is reports whether a digest is that of the expected due times. It is none if some of them may be absent.
func (e *Expected) Is(found Digest) bool {
	var d Digest
	for i := range e.all {
		if e.all[i].may {
			return false
		}
		d.Add(e.all[i].due.UnixMicro())
	}
	return d == found
}

// AddRuns counts occurrences whose digest says that each has run.
func (r *Report) AddRuns(e *Expected) {
	r.Expected += int64(len(e.all))
	r.Run += int64(len(e.all))
	r.ByDigest += int64(len(e.all))
	r.WithoutOracle += e.withoutOracle
}

// Problems returns what was found, without the occurrences that are as they must be.
func (r *Report) Problems() Report {
	return Report{
		Missing: r.Missing, Phantom: r.Phantom, Early: r.Early, Duplicates: r.Duplicates, Findings: r.Findings,
	}
}

// DayOf returns the window of the due times of a day that begins at a time.
func DayOf(start time.Time) Window {
	return Window{From: start.Add(-time.Microsecond), To: start.Add(24*time.Hour - time.Microsecond)}
}
