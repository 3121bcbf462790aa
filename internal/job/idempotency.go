package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/expr"
)

// MaxIdempotencyKey is how long one may be, in bytes: it goes into headers.
const MaxIdempotencyKey = 255

func (c *Checker) idempotencyKey(text string) {
	if text == "" {
		return
	}
	if _, err := expr.Compile(text, expr.OfRun); err != nil {
		c.expression("idempotency_key", err)
	}
}

func (c *Checker) expression(field string, err error) {
	var e *expr.Error
	if !errors.As(err, &e) {
		e = &expr.Error{Problem: err.Error(), Fix: "write it as in the guide"}
	}
	c.Add(field, e.Problem, e.Fix)
}

// IdempotencyKey is what the target gets: the same on every attempt and redrive.
func (a *Attempt) IdempotencyKey() string {
	if a.OwnKey != "" {
		return a.OwnKey
	}
	return FormatRunID(a.Key)
}

// MakeKey evaluates the job's idempotency_key, if it has one and an earlier
// attempt has not done so. An error is a failure for good, and for the job's
// author: delivered under another key, a run could take effect twice.
func (a *Attempt) MakeKey() error {
	if a.KeyExpression == "" || a.OwnKey != "" {
		return nil
	}
	e, err := expr.Compile(a.KeyExpression, expr.OfRun)
	var text string
	if err == nil {
		text, err = e.Text(a.Facts())
	}
	if err == nil {
		err = checkKey(text)
	}
	if err != nil {
		return fmt.Errorf("not delivered, as the job's idempotency_key failed: %w; mend the job, then redrive the run", err)
	}
	a.OwnKey = text
	return nil
}

// KeepKey has the key that the target got kept with the run, if there may be another attempt: the job may have
// another idempotency_key by then. After a success whoever tries it again knows as much, see RetriedKey.
func (a *Attempt) KeepKey(o Outcome) {
	if o.Kind != Succeeded {
		a.OwnKey = a.IdempotencyKey()
	}
}

// RetriedKey is the key of an ended run that is tried again, if it is known: one that succeeded and
// has none of its own was delivered under its id.
func RetriedKey(k Key, own *string, how Ended) *string {
	if own != nil || how != EndedSucceeded {
		return own
	}
	id := FormatRunID(k)
	return &id
}

// ExampleKey is the idempotency key of the occurrence at a time.
func (j *Job) ExampleKey(at time.Time, namespace string) (string, error) {
	d := j.WithDefaults()
	about, err := json.Marshal(expr.Job{Name: d.Name, Namespace: namespace, Queue: d.Queue, Labels: d.Labels})
	if err != nil {
		return "", err
	}
	a := Attempt{Key: Key{Job: j.ID, DueAt: at}, Number: 1, Payload: string(d.Payload), KeyExpression: d.IdempotencyKey, About: string(about)}
	if err := a.MakeKey(); err != nil {
		return "", err
	}
	return a.IdempotencyKey(), nil
}

func checkKey(text string) error {
	switch {
	case text == "":
		return errors.New("it gave an empty text")
	case len(text) > MaxIdempotencyKey:
		return fmt.Errorf("it gave %d bytes; at most %d are taken", len(text), MaxIdempotencyKey)
	case strings.ContainsFunc(text, func(r rune) bool { return r < '!' || r > '~' }):
		return errors.New("it gave a space or a character that is not ASCII, which headers do not carry")
	}
	return nil
}

// Facts are what expressions may know about an attempt.
func (a *Attempt) Facts() *expr.Facts {
	f := &expr.Facts{DueAt: a.Key.DueAt.UTC(), RunID: FormatRunID(a.Key), Payload: a.Payload, Attempt: int64(a.Number), IdempotencyKey: a.IdempotencyKey()}
	if a.About != "" {
		// What the store wrote can be read; if not, names are empty, and an expression that needs them says so.
		_ = json.Unmarshal([]byte(a.About), &f.Job)
	}
	f.Job.ID = FormatJobID(a.Key.Job)
	if f.Job.Labels == nil {
		f.Job.Labels = map[string]string{}
	}
	return f
}
