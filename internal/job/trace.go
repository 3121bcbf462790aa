package job

import "time"

// End is the end of a run that had an attempt, as far as whoever wrote it knows.
type End struct {
	Key     Key
	Attempt int16 // the last one
	Ended   Ended
	Status  int           // in the target's protocol; history does not keep that of a plain success
	Late    time.Duration // how long after its run time the last attempt started, if that is known
	Trace   string        // see Attempt
}

// Succeeded is the end of a run whose attempt succeeded.
func (c *Completion) Succeeded() End {
	return End{
		Key: c.Key, Attempt: c.Attempt, Ended: EndedSucceeded, Status: c.Outcome.Status, Late: c.Late, Trace: c.Trace,
	}
}

// Traced is an ended run with what its spans need.
type Traced struct {
	Entry
	Namespace string // its name
	Kind      string // of the target that the run's version of the job has
	Config    string // of that target, JSON
}
