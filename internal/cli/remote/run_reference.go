package remote

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/job"
)

// RunReference returns the short form of a run in tables: JOB@TIME, with /SEQ behind it if the run is not the first
// of its due time. Times within a second have milliseconds. It is accepted wherever a run is named.
func RunReference(jobName, id string, due time.Time) string {
	layout := "2006-01-02T15:04:05Z"
	if due = due.UTC(); due.Nanosecond() != 0 {
		layout = "2006-01-02T15:04:05.000Z"
	}
	text := jobName + "@" + due.Format(layout)
	if k, err := job.ParseRunID(id); err == nil && k.Seq > 0 {
		text += "/" + strconv.Itoa(int(k.Seq))
	}
	return text
}

// runReference is a run that a user named in a short form: the runs of a job that are due in a window.
type runReference struct {
	job          string // name or id
	from, before time.Time
	seq          int    // -1: any
	prefix       string // of the id; empty: any
}

func (f *runReference) matches(id string) bool {
	k, err := job.ParseRunID(id)
	return err == nil && strings.HasPrefix(id, f.prefix) && (f.seq < 0 || int(k.Seq) == f.seq)
}

// runForms are the accepted forms of TIME in JOB@TIME. A shorter form means the whole minute, second or millisecond.
var runForms = []struct {
	layout string
	size   time.Duration
}{
	{"2006-01-02T15:04Z07:00", time.Minute},
	{"2006-01-02T15:04", time.Minute},
	{"2006-01-02T15:04:05.000000Z07:00", time.Microsecond},
	{"2006-01-02T15:04:05.000Z07:00", time.Millisecond},
	{"2006-01-02T15:04:05.000", time.Millisecond},
	{"2006-01-02T15:04:05Z07:00", time.Second},
	{"2006-01-02T15:04:05", time.Second},
}

// parseRunReference reads JOB@TIME, JOB@TIME/SEQ, or the beginning of an id that names its job.
func parseRunReference(text string) (f runReference, ok bool) {
	if f, ok = parseRunPrefix(text); ok {
		return f, true
	}
	at := strings.LastIndex(text, "@")
	if at < 1 {
		return f, false
	}
	f = runReference{job: text[:at], seq: -1}
	when, seq, numbered := strings.Cut(text[at+1:], "/")
	if numbered {
		var err error
		if f.seq, err = strconv.Atoi(seq); err != nil || f.seq < 0 {
			return f, false
		}
	}
	for _, form := range runForms {
		if t, err := time.Parse(form.layout, when); err == nil {
			f.from = t.Truncate(form.size)
			f.before = f.from.Add(form.size)
			return f, true
		}
	}
	return f, false
}

const (
	runPrefix = "run_"
	runLength = 40 // characters after the prefix
	jobLength = 26 // of them, those that hold the job
)

// parseRunPrefix reads the beginning of an id. It must hold the whole job, so that few runs have to be read.
func parseRunPrefix(text string) (f runReference, ok bool) {
	begun, ok := strings.CutPrefix(text, runPrefix)
	if !ok || len(begun) < jobLength || len(begun) >= runLength {
		return f, false
	}
	var low, high [job.KeyBytes]byte
	padded := func(with string) string { return text + strings.Repeat(with, runLength-len(begun)) }
	if !job.DecodeID(padded("0"), runPrefix, low[:]) || !job.DecodeID(padded("v"), runPrefix, high[:]) {
		return f, false
	}
	first, _ := job.KeyFromBytes(low)
	last, _ := job.KeyFromBytes(high)
	return runReference{
		job: job.FormatJobID(first.Job), from: first.DueAt, before: last.DueAt.Add(time.Microsecond), seq: -1, prefix: text,
	}, true
}

// IsRun reports whether text names a run, not a job.
func IsRun(text string) bool {
	_, err := job.ParseRunID(text)
	_, ok := parseRunReference(text)
	return err == nil || ok || strings.HasPrefix(text, runPrefix)
}

// RunID returns the id of the run that a user named: by its id, the beginning of its id, or JOB@TIME.
func (r *Server) RunID(ctx context.Context, text string) (string, error) {
	if _, err := job.ParseRunID(text); err == nil {
		return text, nil
	}
	f, ok := parseRunReference(text)
	if begun, isID := strings.CutPrefix(text, runPrefix); !ok && isID && len(begun) < jobLength {
		return "", usage.Errorf("%s is too short for a run: write at least %d characters after %s,"+
			" or JOB@TIME as belfry run list prints it", text, jobLength, runPrefix)
	}
	if !ok {
		return "", usage.Errorf("%q does not name a run; write its id, run_…, or JOB@TIME such as"+
			" report@2026-01-31T09:00:00Z, as belfry run list prints them", text)
	}
	// One page is enough: more candidates would not fit into an error.
	raw, err := r.Get(ctx, JobPath(f.job)+"/runs", url.Values{
		"due_from": {f.from.UTC().Format(time.RFC3339Nano)}, "due_to": {f.before.UTC().Format(time.RFC3339Nano)},
		"page_size": {"100"},
	})
	if err != nil {
		return "", err
	}
	type found struct {
		ID    string `json:"id"`
		State string `json:"state"`
	}
	var page struct {
		Items []found `json:"items"`
		Next  string  `json:"next_page_token"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return "", err
	}
	var matching []found
	for _, run := range page.Items {
		// A run that was retried is listed once for each end.
		known := slices.ContainsFunc(matching, func(x found) bool { return x.ID == run.ID })
		if f.matches(run.ID) && !known {
			matching = append(matching, run)
		}
	}
	for _, run := range matching { // without /SEQ, an exact time means the first run of that time
		k, err := job.ParseRunID(run.ID)
		if err == nil && f.prefix == "" && k.Seq == 0 && k.DueAt.Equal(f.from) && f.before.Sub(f.from) <= time.Second {
			return run.ID, nil
		}
	}
	if page.Next != "" {
		return "", usage.Errorf("too many runs match %s to find the one that is meant; write more of its time or its id,"+
			" run_…, as belfry job runs %s -o name prints it", terminal.Clean(text), f.job)
	}
	if len(matching) == 0 {
		return "", usage.Errorf("there is no run %s; belfry job runs %s lists those of the job,"+
			" and belfry why %s TIME explains a time without a run", text, f.job, f.job)
	}
	return OnlyOne("run", text, matching, func(x found) (string, string) { return x.ID, x.State })
}
