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
	maxWaiting = 32          // requests that wait at the same time, shared by namespaces; others do not wait
)

type runOutputInput struct {
	RunPath
	Attempt int16 `query:"attempt" minimum:"0" maximum:"32767" default:"0" doc:"The attempt. 0: the last one."`
	After   int64 `query:"after" minimum:"0" doc:"Skip this many bytes."`
	Wait    int   `query:"wait" minimum:"0" maximum:"20" default:"0" doc:"Seconds to wait for output; fewer on a busy node."`
}

// RunOutput is the end of what an attempt has written.
type RunOutput struct {
	Attempt int16  `json:"attempt" doc:"Number of the attempt; 0: none yet."`
	Text    string `json:"text" doc:"Output from after on: UTF-8 without control characters, secrets redacted."`
	From    int64  `json:"from" doc:"Bytes before text. If greater than after, the bytes between are lost."`
	Total   int64  `json:"total" doc:"Bytes of output so far: after of the next request."`
	Live    bool   `json:"live" doc:"Whether the attempt is in progress, so more may come."`

	State RunState `json:"state" doc:"State of the run."`
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
		namespace := rest.Principal(ctx).Namespace
		if s.waiting.Take(namespace, 1) == nil {
			defer s.waiting.Give(namespace, 1)
		} else {
			wait = 0
		}
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	tick := time.NewTicker(outputPoll)
	defer tick.Stop()
	for waited := false; ; waited = true {
		out, err := s.readOutput(ctx, k, in)
		if err == nil && waited {
			err = rest.CheckKey(ctx)
		}
		if err != nil {
			return nil, err
		}
		if out.Text != "" || !out.Live || wait == 0 {
			return &getRunOutputOutput{out}, nil
		}
		select {
		case <-tick.C:
		case <-limit.C:
			wait = 0 // the next time is the last
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
	out = RunOutput{Attempt: in.Attempt, State: RunState(last.Status)}
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
