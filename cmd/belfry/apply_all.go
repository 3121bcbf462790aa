package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// The sizes of what apply sends.
const (
	bulkLeast  = 10       // fewer jobs are sent one by one
	bulkJobs   = 1000     // of one request: what the server makes in one transaction
	bulkBytes  = 12 << 20 // of one request; the server takes 16 MB
	applyAtOne = 8        // requests at one time
)

// applied is a line of what apply prints.
type applied struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// applyAll applies jobs. It goes on after a job that is refused, so that all that
// is wrong is told; it stops at what would be said of each: a server that is away,
// a key that is not taken.
func (r *remote) applyAll(ctx context.Context, jobs []fileJob) error {
	a := &application{r: r, jobs: jobs, results: make([]applied, len(jobs)), bar: newProgress(r.cmd.ErrOrStderr(), r.cmd.Name(), int64(len(jobs)))}
	defer a.bar.end()
	var rest []int
	for i, j := range jobs {
		if _, err := normal(j.raw, true); err != nil {
			a.settle(i, "", err)
		} else {
			rest = append(rest, i)
		}
	}
	err := a.bulk(ctx, &rest)
	if err == nil {
		err = a.each(ctx, rest)
	}
	a.bar.end()
	done := []applied{}
	for _, x := range a.results {
		if x.Name != "" {
			done = append(done, x)
		}
	}
	if err != nil && a.done == 0 {
		return err
	}
	shown := r.showApplied(done)
	if ctx.Err() != nil {
		return told{fmt.Sprintf("interrupted after %d of %d jobs; those that were under way may be done all the same. Run it again, and it goes on", a.done, len(jobs)), ctx.Err()}
	}
	if err != nil {
		return fmt.Errorf("stopped after %d of %d jobs, and the others were not sent; run it again, and it goes on: %w", a.done, len(jobs), r.explain(err, nil))
	}
	return shown
}

// application is an apply that is under way.
type application struct {
	r       *remote
	jobs    []fileJob
	results []applied
	bar     *progress

	mu   sync.Mutex
	done int
}

// settle notes what a job came to.
func (a *application) settle(i int, verdict string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := applied{Name: a.jobs[i].name, Result: verdict}
	if err != nil {
		x.Result, x.Error = refused, a.jobs[i].at+": "+a.r.explain(err, nil).Error()
	}
	a.results[i] = x
	a.done++
	a.bar.set(int64(a.done), int64(len(a.jobs)))
}

// bulk creates those that are not there, many with one request. What is left of
// rest are those that are there already, or were too few.
func (a *application) bulk(ctx context.Context, rest *[]int) error {
	if len(*rest) < bulkLeast {
		return nil
	}
	var exist []int
	for todo := *rest; len(todo) > 0; {
		var body bytes.Buffer
		n := 0
		for n < len(todo) && n < bulkJobs && body.Len()+len(a.jobs[todo[n]].raw) < bulkBytes {
			if err := json.Compact(&body, a.jobs[todo[n]].raw); err != nil {
				return err
			}
			body.WriteByte('\n')
			n++
		}
		if n == 0 { // one that is too large for any request
			exist, todo = append(exist, todo[0]), todo[1:]
			continue
		}
		there, err := a.create(ctx, todo[:n], body.Bytes())
		if err != nil {
			return err
		}
		exist, todo = append(exist, there...), todo[n:]
	}
	*rest = exist
	return nil
}

// create sends one request of many jobs, and returns those that are there.
func (a *application) create(ctx context.Context, which []int, lines []byte) (exist []int, err error) {
	var answer struct {
		Items []struct {
			Line    int             `json:"line"`
			Problem *belfry.Problem `json:"problem"`
		} `json:"items"`
	}
	err = a.r.Call(ctx, belfry.Request{
		Method: http.MethodPost, Path: "/jobs:bulk", Body: lines,
		Header: map[string]string{"Content-Type": "application/x-ndjson", "Idempotency-Key": rand.Text()},
	}, &answer)
	if err != nil {
		return nil, err
	}
	for _, item := range answer.Items {
		if item.Line < 1 || item.Line > len(which) {
			return nil, errors.New("the server's answer has other lines than were sent; is this belfry older than the server?")
		}
		i := which[item.Line-1]
		switch p := item.Problem; {
		case p == nil:
			a.settle(i, created, nil)
		case p.Code == "conflict":
			exist = append(exist, i)
		case hopeless(p):
			return nil, p
		default:
			a.settle(i, "", p)
		}
	}
	return exist, nil
}

// each compares and sends jobs one by one, some at a time.
func (a *application) each(ctx context.Context, which []int) error {
	return eachOf(ctx, which, func(ctx context.Context, i int) error {
		verdict, err := a.r.apply(ctx, a.jobs[i])
		if err != nil && (ctx.Err() != nil || hopeless(err)) {
			return err
		}
		a.settle(i, verdict, err)
		return nil
	})
}

// eachOf does something with each item, a few at a time, until one fails.
func eachOf[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan T)
	var workers sync.WaitGroup
	for range min(applyAtOne, len(items)) {
		workers.Go(func() {
			for item := range next {
				if err := do(ctx, item); err != nil {
					stop(err) // the first one counts
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

func (r *remote) showApplied(results []applied) error {
	count := map[string]int{}
	for _, a := range results {
		count[a.Result]++
		r.say("%s %s", verdictStyle(a.Result), clean(a.Name))
		if a.Error != "" {
			r.note("%s: %s", a.Name, a.Error)
		}
	}
	raw, err := json.Marshal(results)
	if err != nil {
		return err
	}
	err = r.show(raw, func() error {
		r.say("%s", faint.Render(fmt.Sprintf("%d created, %d changed, %d unchanged, %d refused", count[created], count[changed], count[unchanged], count[refused])))
		return nil
	})
	if count[refused] > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d jobs were refused", count[refused], len(results)))
	}
	return err
}
