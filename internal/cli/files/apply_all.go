package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// Limits of a request. The server accepts more lines, but apply would then show progress less often.
const (
	bulkJobs  = 1000
	bulkBytes = 12 << 20 // the server accepts 16 MB
)

// applied is one line of the output of apply.
type applied struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// applyAll applies jobs. It continues after a rejected job, so one call reports every problem. It stops
// at an error that every further job would meet too, such as a wrong key.
func applyAll(ctx context.Context, r *remote.Server, jobs []Job) error {
	a := &application{
		r: r, jobs: jobs, results: make([]applied, len(jobs)),
		bar: terminal.NewProgress(r.Cmd.ErrOrStderr(), r.Cmd.Name(), int64(len(jobs))),
	}
	defer a.bar.End()
	var err error
	for begin, part := range batches(jobs) {
		if err = a.apply(ctx, begin, part); err != nil {
			break
		}
	}
	a.bar.End()
	if err != nil && a.done == 0 {
		return err
	}
	shown := a.show()
	if ctx.Err() != nil {
		return remote.Explained(ctx.Err(), "interrupted after %d of %d jobs; those that were under way may be done"+
			" all the same. Run it again, and it goes on", a.done, len(jobs))
	}
	if err != nil {
		return fmt.Errorf("stopped after %d of %d jobs, and the others were not sent; run it again, and it goes on: %w",
			a.done, len(jobs), r.Explain(err, nil))
	}
	return shown
}

// application is one run of apply. Jobs are known by their index.
type application struct {
	r       *remote.Server
	jobs    []Job
	results []applied // without a name until the job is done
	bar     *terminal.Progress
	done    int
}

// record stores the result of a job, or why it was rejected.
func (a *application) record(i int, result string, err error) {
	x := applied{Name: a.jobs[i].Name, Result: result}
	if err != nil {
		x.Result, x.Error = refused, a.jobs[i].At+": "+a.r.Explain(err, nil).Error()
	}
	a.results[i] = x
	a.done++
	a.bar.Set(int64(a.done), int64(len(a.jobs)))
}

// apply compares the jobs of one batch with the server's and sends those that differ. A job that was changed after the
// comparison is refused.
func (a *application) apply(ctx context.Context, begin int, part []Job) error {
	found, err := compare(ctx, a.r, part)
	if err != nil {
		return err
	}
	var differ []Job
	var of []int
	for i := range found {
		d := &found[i]
		switch err := d.refusal(&part[i]); {
		case err != nil || d.Result == "same":
			a.record(begin+i, unchanged, err)
		default:
			j := part[i]
			if d.Version > 0 {
				j.Raw = fmt.Appendf(nil, `{"version":%d,%s`, d.Version, j.Raw[1:])
			}
			differ, of = append(differ, j), append(of, begin+i)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	saved, err := sendLines[savedLine](ctx, a.r, belfry.Request{
		Path: "/jobs:bulk", Query: url.Values{"existing": {"replace"}},
		Header: map[string]string{"Idempotency-Key": rand.Text()}, // it is repeated if the server is busy
	}, differ)
	if err != nil {
		return err
	}
	var stop error
	for i, s := range saved {
		switch {
		case s.Problem == nil:
			a.record(of[i], s.Result, nil)
		case remote.IsHopeless(s.Problem):
			stop = s.Problem
		default:
			a.record(of[i], "", s.Problem)
		}
	}
	return stop
}

// savedLine is what the server did with one job.
type savedLine struct {
	Result  string          `json:"result"`
	Problem *belfry.Problem `json:"problem"`
}

// batches splits jobs into parts that fit into one request, each with the index of its first job.
func batches(jobs []Job) iter.Seq2[int, []Job] {
	return func(yield func(int, []Job) bool) {
		for begin, end := 0, 0; begin < len(jobs); begin = end {
			size := 0
			for end < len(jobs) && end-begin < bulkJobs && (end == begin || size+len(jobs[end].Raw) < bulkBytes) {
				size += len(jobs[end].Raw)
				end++
			}
			if !yield(begin, jobs[begin:end]) {
				return
			}
		}
	}
}

// sendLines sends jobs as NDJSON and returns what the server answers for each.
func sendLines[T any](ctx context.Context, r *remote.Server, q belfry.Request, jobs []Job) (items []T, err error) {
	var body bytes.Buffer
	for _, j := range jobs {
		if err := json.Compact(&body, j.Raw); err != nil {
			return nil, fmt.Errorf("%s: %w", j.At, err)
		}
		body.WriteByte('\n')
	}
	response := struct {
		Items *[]T `json:"items"`
	}{&items}
	if q.Header == nil {
		q.Header = map[string]string{}
	}
	q.Header["Content-Type"], q.Method, q.Body = "application/x-ndjson", http.MethodPost, body.Bytes()
	err = r.Call(ctx, q, &response)
	if err == nil && len(items) != len(jobs) {
		err = errors.New("the server's answer has other lines than were sent; is this belfry older than the server?")
	}
	return items, err
}

// show prints the results of the jobs that are done. It returns an error if a job was rejected.
func (a *application) show() error {
	count, done := map[string]int{}, []applied{}
	for _, x := range a.results {
		if x.Name == "" {
			continue
		}
		done = append(done, x)
		count[x.Result]++
		a.r.Line("%s %s", styled(x.Result), terminal.Clean(x.Name))
		if x.Error != "" {
			a.r.Note("%s: %s", x.Name, x.Error)
		}
	}
	raw, err := json.Marshal(done)
	if err != nil {
		return err
	}
	err = a.r.Show(raw, func() error {
		a.r.Line("%s", terminal.Faint.Render(fmt.Sprintf("%d created, %d changed, %d unchanged, %d refused",
			count[created], count[changed], count[unchanged], count[refused])))
		return nil
	})
	if count[refused] > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d jobs were refused", count[refused], len(done)))
	}
	return err
}
