package job

import (
	"bytes"
	"encoding/json"
	"time"
)

// The defaults. The comments of the fields repeat them.
const (
	DefaultQueue = "default"

	defaultReportTimeout   = Duration(time.Hour)
	defaultTimeout         = Duration(30 * time.Second)
	defaultKeepFinishedFor = Duration(24 * time.Hour)

	defaultMaxAttempts = 3
	defaultBase        = Duration(5 * time.Second)
	defaultCap         = Duration(15 * time.Minute)
	defaultJitter      = 0.2

	defaultCatchUpWindow = Duration(30 * time.Minute)
	defaultMaxMissed     = 100
	defaultPace          = Duration(time.Second)
)

// WithDefaults fills in what the user left out.
func (d Definition) WithDefaults() Definition {
	d.Queue = orElse(d.Queue, DefaultQueue)
	d.Policy = d.Policy.WithDefaults()
	if string(bytes.Join(bytes.Fields(d.Target.Config), nil)) == "{}" {
		d.Target.Config = nil // an empty object means the same, and is not another definition
	}
	return d
}

// WithDefaults fills in what the user left out. Decisions take policies with defaults, so no decision knows a default.
func (p Policy) WithDefaults() Policy {
	p.Retry = p.Retry.WithDefaults()
	p.Missed = p.Missed.WithDefaults()
	p.Overlap = orElse(p.Overlap, OverlapSkip)
	p.Timeout = orElse(p.Timeout, defaultTimeout)
	if p.Concurrency.Key != "" {
		p.Concurrency.Max = orElse(p.Concurrency.Max, 1)
	}
	p.ReportTimeout = orElse(p.ReportTimeout, defaultReportTimeout)
	p.Delivery = orElse(p.Delivery, AtLeastOnce)
	p.KeepFinishedFor = orElse(p.KeepFinishedFor, defaultKeepFinishedFor)
	return p
}

// WithDefaults fills in what the user left out.
func (r Retry) WithDefaults() Retry {
	r.MaxAttempts = orElse(r.MaxAttempts, defaultMaxAttempts)
	r.Backoff = orElse(r.Backoff, BackoffExponential)
	r.Base = orElse(r.Base, defaultBase)
	// A user who sets only a long base must not get an error about a cap they did not write.
	r.Cap = orElse(r.Cap, max(defaultCap, r.Base))
	r.Jitter = orElse(r.Jitter, defaultJitter)
	return r
}

// WithDefaults fills in what the user left out.
func (m Missed) WithDefaults() Missed {
	m.Policy = orElse(m.Policy, MissedOnce)
	m.CatchUpWindow = orElse(m.CatchUpWindow, defaultCatchUpWindow)
	m.Max = orElse(m.Max, defaultMaxMissed)
	m.Pace = orElse(m.Pace, defaultPace)
	m.Paused = orElse(m.Paused, MissedSkip)
	m.Created = orElse(m.Created, MissedOnce)
	return m
}

func orElse[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

// ReadPolicy decodes the policy of a job; nil: the job is deleted. A policy that cannot be read counts as the default,
// so that it does not fail the other runs of the batch.
func ReadPolicy(text *string) (p Policy) {
	if text != nil && json.Unmarshal([]byte(*text), &p) != nil {
		p = Policy{}
	}
	return p.WithDefaults()
}
