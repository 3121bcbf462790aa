package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/problem"
)

// MaxIdempotencyKey is the maximum length in bytes. Keys are sent in headers.
const MaxIdempotencyKey = 255

func checkIdempotencyKey(c *problem.Checker, text string) {
	if text == "" {
		return
	}
	if err := expr.Check(text, expr.OfRun); err != nil {
		addExpression(c, "idempotency_key", err)
	}
}

func addExpression(c *problem.Checker, field string, err error) {
	var e *expr.Error
	if !errors.As(err, &e) {
		e = &expr.Error{Problem: err.Error(), Fix: "write it as in the guide"}
	}
	c.Add(field, e.Problem, e.Fix)
}

// IdempotencyKey is the key that the target gets, the same with every attempt and redrive.
func (a *Attempt) IdempotencyKey() string {
	if a.OwnKey != "" {
		return a.OwnKey
	}
	return FormatRunID(a.Key)
}

// MakeKey decides the idempotency key of a run, after its first claim, if the job has an expression for it. It returns
// whether the key must be stored now, before anything is delivered: the process may die, and the job may change. An
// expression that fails is a KeyProblem.
func (a *Attempt) MakeKey() (made bool) {
	if a.KeyExpression == "" {
		return false
	}
	key, err := a.evaluateKey()
	if err != nil {
		a.KeyProblem = fmt.Sprintf("not delivered, as the job's idempotency_key failed: %v; fix the job, then redrive the run", err)
		return false
	}
	a.OwnKey = key
	return true
}

// WithoutKey is the outcome of an attempt that has a KeyProblem. It is a permanent failure that the job's author must
// fix: under another key the run could take effect twice.
func (a *Attempt) WithoutKey() Outcome {
	return Outcome{Kind: Failed, NoKey: true, Message: a.KeyProblem}
}

func (a *Attempt) evaluateKey() (string, error) {
	e, err := expr.Compile(a.KeyExpression, expr.OfRun)
	if err != nil {
		return "", err
	}
	key, err := e.Text(a.Facts())
	if err != nil {
		return "", err
	}
	return key, checkKey(key)
}

// ExampleKey is the idempotency key of the occurrence at a time.
func (j *Job) ExampleKey(at time.Time, namespace string) (string, error) {
	d := j.WithDefaults()
	about, err := json.Marshal(expr.Job{Name: d.Name, Namespace: namespace, Queue: d.Queue, Labels: d.Labels})
	if err != nil {
		return "", err
	}
	a := Attempt{
		Key: Key{Job: j.ID, DueAt: at}, Number: 1, Payload: string(d.Payload),
		KeyExpression: d.IdempotencyKey, About: string(about),
	}
	if a.MakeKey(); a.KeyProblem != "" {
		return "", errors.New(a.KeyProblem)
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

// Facts are what expressions can use about an attempt.
func (a *Attempt) Facts() *expr.Facts {
	f := &expr.Facts{
		DueAt: a.Key.DueAt.UTC(), RunID: FormatRunID(a.Key), Payload: a.Payload, Attempt: int64(a.Number),
		IdempotencyKey: a.IdempotencyKey(),
	}
	if a.About != "" {
		// The store wrote valid JSON. If it did not, names are empty, and expressions that need them fail.
		_ = json.Unmarshal([]byte(a.About), &f.Job)
	}
	f.Job.ID = FormatJobID(a.Key.Job)
	if f.Job.Labels == nil {
		f.Job.Labels = map[string]string{}
	}
	return f
}
