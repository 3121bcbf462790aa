package server

import (
	"context"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

const (
	outputPoll = time.Second // how often a waiting request looks for new output
	maxWaiting = 32          // requests that wait at the same time; others do not wait
)

type runOutputInput struct {
	RunPath
	Attempt int16 `query:"attempt" minimum:"0" maximum:"32767" default:"0" doc:"Of this attempt. 0 is the last one."`
	After   int64 `query:"after" minimum:"0" doc:"What comes after so many bytes."`
	Wait    int   `query:"wait" minimum:"0" maximum:"20" default:"0" doc:"Wait so many seconds at most until there is any, or the attempt has ended. A node on which many wait answers at once."`
}

// RunOutput is the end of what an attempt has written.
type RunOutput struct {
	Attempt int16  `json:"attempt" doc:"Which attempt; 0: there was none yet."`
	Text    string `json:"text" doc:"Its end, from after on: lines of UTF-8 without control characters, with secrets blotted out."`
	From    int64  `json:"from" doc:"So many bytes came before text. If it is more than after, what is in between is gone."`
	Total   int64  `json:"total" doc:"So many bytes there are: after, for the next request."`
	Live    bool   `json:"live" doc:"The attempt is under way, so more may come."`
	State   string `json:"state" enum:"pending,due,running,waiting,succeeded,failed,cancelled,skipped" doc:"Of the run."`
}

type getRunOutputOutput struct {
	Body RunOutput
}

func (s *Server) getRunOutput(ctx context.Context, in *runOutputInput) (*getRunOutputOutput, error) {
	k, err := in.key()
	if err != nil {
		return nil, err
	}
	wait := time.Duration(in.Wait) * time.Second
	if wait > 0 {
		select {
		case s.waiting <- struct{}{}:
			defer func() { <-s.waiting }()
		default:
			wait = 0
		}
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	tick := time.NewTicker(outputPoll)
	defer tick.Stop()
	for {
		out, err := s.readOutput(ctx, k, in)
		if err != nil {
			return nil, err
		}
		if out.Text != "" || !out.Live || wait == 0 {
			return &getRunOutputOutput{out}, nil
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return &getRunOutputOutput{out}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Server) readOutput(ctx context.Context, k job.Key, in *runOutputInput) (out RunOutput, err error) {
	namespace := rest.Principal(ctx).Namespace
	// The run is read before its output: if the attempt has ended by then, its output is complete.
	entries, err := s.opts.Ledger.Run(ctx, namespace, k)
	if err != nil {
		return out, err
	}
	outputs, err := s.opts.Ledger.Outputs(ctx, namespace, k)
	if err != nil {
		return out, err
	}
	last := entries[0]
	out = RunOutput{Attempt: in.Attempt, State: string(last.Status)}
	if out.Attempt == 0 {
		out.Attempt = last.Attempt
	}
	out.Live = last.Status == job.StatusRunning && last.Attempt == out.Attempt
	i := slices.IndexFunc(outputs, func(o job.Output) bool { return o.Attempt == out.Attempt })
	if i < 0 {
		return out, nil
	}
	o := outputs[i]
	out.Total = o.Total
	out.From = max(o.Total-int64(len(o.Text)), min(in.After, o.Total))
	out.Text = o.Text[int64(len(o.Text))-(o.Total-out.From):]
	return out, nil
}
