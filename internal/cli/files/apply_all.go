package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// Limits of the requests that apply sends.
const (
	bulkMin     = 10       // fewer jobs are sent one by one
	bulkJobs    = 1000     // jobs per request: the server creates them in one transaction
	bulkBytes   = 12 << 20 // bytes per request: the server accepts 16 MB
	concurrency = 8        // requests at the same time
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
	var valid, unreadable []int
	for i, j := range jobs {
		if _, err := strictDefinition(j.Raw); err != nil {
			unreadable = append(unreadable, i)
		} else {
			valid = append(valid, i)
		}
	}
	rest, err := a.createInBulk(ctx, valid)
	rest = append(rest, unreadable...) // the server explains them
	if err == nil {
		err = a.applyEach(ctx, rest)
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

	mu   sync.Mutex
	done int
}

// record stores the result of a job, or why it was rejected.
func (a *application) record(i int, result string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := applied{Name: a.jobs[i].Name, Result: result}
	if err != nil {
		x.Result, x.Error = refused, a.jobs[i].At+": "+a.r.Explain(err, nil).Error()
	}
	a.results[i] = x
	a.done++
	a.bar.Set(int64(a.done), int64(len(a.jobs)))
}

// createInBulk creates the jobs that do not exist, many per request. It returns the jobs that are left:
// those that exist already, or all of them if they are too few for a bulk request.
func (a *application) createInBulk(ctx context.Context, which []int) (rest []int, err error) {
	if len(which) < bulkMin {
		return which, nil
	}
	for len(which) > 0 {
		var body bytes.Buffer
		n := 0
		for n < len(which) && n < bulkJobs && body.Len()+len(a.jobs[which[n]].Raw) < bulkBytes {
			if err := json.Compact(&body, a.jobs[which[n]].Raw); err != nil {
				return nil, err
			}
			body.WriteByte('\n')
			n++
		}
		if n == 0 { // one job that is too large for a bulk request
			rest, which = append(rest, which[0]), which[1:]
			continue
		}
		exist, err := a.create(ctx, which[:n], body.Bytes())
		if err != nil {
			return nil, err
		}
		rest, which = append(rest, exist...), which[n:]
	}
	return rest, nil
}

// create sends one bulk request and returns the jobs that exist already.
func (a *application) create(ctx context.Context, which []int, lines []byte) (exist []int, err error) {
	var response struct {
		Items []struct {
			Line    int             `json:"line"`
			Problem *belfry.Problem `json:"problem"`
		} `json:"items"`
	}
	err = a.r.Call(ctx, belfry.Request{
		Method: http.MethodPost, Path: "/jobs:bulk", Body: lines,
		Header: map[string]string{"Content-Type": "application/x-ndjson", "Idempotency-Key": rand.Text()},
	}, &response)
	if err != nil {
		return nil, err
	}
	for _, item := range response.Items {
		if item.Line < 1 || item.Line > len(which) {
			return nil, errors.New("the server's answer has other lines than were sent;" +
				" is this belfry older than the server?")
		}
		i := which[item.Line-1]
		switch p := item.Problem; {
		case p == nil:
			a.record(i, created, nil)
		case p.Code == "conflict":
			exist = append(exist, i)
		case remote.IsHopeless(p):
			return nil, p
		default:
			a.record(i, "", p)
		}
	}
	return exist, nil
}

// applyEach compares and sends jobs one by one.
func (a *application) applyEach(ctx context.Context, which []int) error {
	return eachOf(ctx, which, func(ctx context.Context, i int) error {
		result, err := applyOne(ctx, a.r, a.jobs[i])
		if err != nil && (ctx.Err() != nil || remote.IsHopeless(err)) {
			return err
		}
		a.record(i, result, err)
		return nil
	})
}

// eachOf calls do for each item, a few at the same time, until one fails. It returns the first error.
func eachOf[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan T)
	var workers sync.WaitGroup
	for range min(concurrency, len(items)) {
		workers.Go(func() {
			for item := range next {
				if err := do(ctx, item); err != nil {
					stop(err) // keeps the first error
				}
			}
		})
	}
feed:
	for _, item := range items {
		select {
		case next <- item:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
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
