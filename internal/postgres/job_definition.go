package postgres

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/store"
)

// definition is a checked job.Definition and what is derived from it.
type definition struct {
	job.Definition
	own     *schedule.Schedule // with start_at, end_at and jitter
	shared  string             // the cursor's schedule: canonical, without those three
	missed  string             // the cursor's missed policy
	key     []byte             // of the cursor
	startAt time.Time          // zero: none
	endAt   *time.Time         // nil: none is known
	jitter  time.Duration
	text    struct{ whole, schedule, policy, labels, config string }
	payload *string
}

// noConfig is stored for a target without settings, so that targets always read JSON.
const noConfig = "{}"

// define validates what a user wrote and fills in the defaults.
func define(d job.Definition, id uuid.UUID) (*definition, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return derive(d.WithDefaults(), id)
}

// derive is define for a stored definition, without validation: if a limit is lowered later, existing jobs must stay
// usable.
func derive(d job.Definition, id uuid.UUID) (*definition, error) {
	// H in a schedule is a hash of the job's id, so that the jobs of a namespace spread.
	own, err := schedule.New(d.Schedule, id.String())
	if err != nil {
		return nil, err
	}
	out := &definition{Definition: d, own: own, shared: own.Key()}
	if d.Schedule.Jitter != "" {
		if out.jitter, err = schedule.ParseDuration(d.Schedule.Jitter); err != nil {
			return nil, err
		}
	}
	out.startAt = roundUp(d.Schedule.StartAt)
	end := roundUp(d.Schedule.EndAt)
	// A one-off ends after its occurrence, so plan need not write that. A local time may still move with the rules of
	// its time zone.
	if at, err := time.Parse(time.RFC3339, d.Schedule.At); err == nil && end.IsZero() {
		end = roundUp(at).Add(store.Instant)
	}
	if !end.IsZero() {
		out.endAt = &end
	}
	// Planning does not use these policies, so jobs that differ in them can share a cursor.
	missed := d.Missed
	missed.Paused, missed.Created = "", ""
	if out.missed, err = toJSON(missed); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(out.shared + "\n" + out.missed))
	out.key = sum[:]
	return out, out.encode()
}

// Encoded is a definition as its row stores it, for benchmarks that write rows themselves.
type Encoded struct {
	job.Definition
	Config, Policy string // JSON
	Payload        *string
}

// Encode checks a definition and returns how its row stores it.
func Encode(d job.Definition) (Encoded, error) {
	out, err := define(d, uuid.New())
	if err != nil {
		return Encoded{}, err
	}
	return Encoded{out.Definition, out.text.config, out.text.policy, out.payload}, nil
}

// EncodedCursor is a cursor as its row stores it.
type EncodedCursor struct {
	Key              []byte
	Schedule, Missed string // JSON
}

// EncodeCursor returns the cursor of the jobs with a schedule and a missed policy.
func EncodeCursor(spec schedule.Spec, missed job.Missed) (EncodedCursor, error) {
	d, err := derive(job.Definition{Schedule: spec, Policy: job.Policy{Missed: missed}}.WithDefaults(), uuid.Nil)
	if err != nil {
		return EncodedCursor{}, err
	}
	return EncodedCursor{d.key, d.shared, d.missed}, nil
}

func (d *definition) encode() (err error) {
	t := &d.text
	if t.whole, err = toJSON(d.Definition); err != nil {
		return err
	}
	if t.schedule, err = toJSON(d.Schedule); err != nil {
		return err
	}
	if t.policy, err = toJSON(d.Policy); err != nil {
		return err
	}
	t.labels, t.config = "{}", noConfig
	if len(d.Labels) > 0 {
		if t.labels, err = toJSON(d.Labels); err != nil {
			return err
		}
	}
	if len(d.Target.Config) > 0 {
		t.config = string(d.Target.Config)
	}
	if len(d.Payload) > 0 {
		text := string(d.Payload)
		d.payload = &text
	}
	return nil
}

func toJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// roundUp rounds up to the resolution of the database. Rounding down would let a start or an end include or exclude an
// occurrence that lies in between.
func roundUp(t time.Time) time.Time {
	if cut := t.Truncate(store.Instant); !cut.Equal(t) {
		return cut.Add(store.Instant)
	}
	return t
}

// planFrom returns the first instant that this definition applies to if it takes effect now. An occurrence at exactly
// now belongs to the old definition.
func (d *definition) planFrom(now time.Time) time.Time {
	return store.Later(now.Add(store.Instant), d.startAt)
}

// handler returns the name by which workers pull the runs of the job; nil: nodes deliver them.
func (d *definition) handler() *string {
	if name := d.Target.Handler(); name != "" {
		return &name
	}
	return nil
}

// concurrencyKey returns the id of the concurrency key in the database; nil: there is none.
func (d *definition) concurrencyKey(namespace uuid.UUID) *int64 {
	if id := d.Concurrency.ID(namespace); id != 0 {
		return &id
	}
	return nil
}

func (d *definition) concurrencyMax() *int32 {
	if d.Concurrency.Key == "" {
		return nil
	}
	return &d.Concurrency.Max
}

func (d *definition) timeoutMS() int64 { return time.Duration(d.Timeout).Milliseconds() }

// keep returns how long the job stays after it has finished; nil: forever.
func (d *definition) keep() *time.Duration {
	if d.Schedule.At == "" {
		return nil
	}
	keep := time.Duration(d.KeepFinishedFor)
	return &keep
}

// deadline returns within which time after its due time a run has to start; nil: at any time.
func (d *definition) deadline() *time.Duration { return durationOrNull(d.Deadline) }

func durationOrNull(d job.Duration) *time.Duration {
	if d == 0 {
		return nil
	}
	v := time.Duration(d)
	return &v
}

// sameTimes reports whether runs are due and may start at the same times as before.
func (d *definition) sameTimes(old *definition) bool {
	sameEnd := d.endAt == nil && old.endAt == nil || d.endAt != nil && old.endAt != nil && d.endAt.Equal(*old.endAt)
	return string(d.key) == string(old.key) && d.startAt.Equal(old.startAt) && sameEnd && d.jitter == old.jitter
}

const selectQueue = `SELECT id FROM queue WHERE namespace_id = $1 AND name = $2`
