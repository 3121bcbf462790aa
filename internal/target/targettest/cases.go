package targettest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/trace"
)

var cases = []struct {
	name        string
	needsServer bool
	test        func(b *bundle)
}{
	{"success", false, success},
	{"config", false, config},
	{"cancelled before", false, cancelledBefore},
	{"concurrent", false, concurrent},
	{"retryable failure", true, retryableFailure},
	{"final failure", true, finalFailure},
	{"timeout", true, timeout},
	{"cancel", true, cancelled},
	{"slow", true, slow},
	{"huge response", true, huge},
	{"down and back", true, downAndBack},
	{"same key on every attempt", true, sameKey},
	{"secrets", true, secretsHidden},
	{"bound secrets", true, boundSecrets},
}

func success(b *bundle) {
	b.want(b.deliver(b.Context(), b.attempt(1, patience)), job.Succeeded, false)
}

// config: Check accepts the config that delivers. It reports settings it does not know with their field
// and a fix, and does not ignore them.
func config(b *bundle) {
	if err := b.target.Check(b.config); err != nil {
		b.Errorf("Check(the config that delivers) = %v", err)
	}
	for _, bad := range []string{`[]`, `"x"`, `{"no_such_setting": 1}`} {
		problems := problem.All(b.target.Check(json.RawMessage(bad)))
		if len(problems) == 0 {
			b.Errorf("Check(%s) finds no problem", bad)
		}
		for _, p := range problems {
			if p.Field == "" || p.Problem == "" || p.Fix == "" {
				b.Errorf("Check(%s) does not name field, problem and fix: %+v", bad, p)
			}
		}
	}
}

// cancelledBefore: a node that is stopping starts no delivery, and another node retries it.
func cancelledBefore(b *bundle) {
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	b.want(b.deliver(ctx, b.attempt(1, patience)), job.Failed, true)
}

func concurrent(b *bundle) {
	var all sync.WaitGroup
	for range b.concurrent {
		all.Go(func() { b.want(b.deliver(b.Context(), b.attempt(1, patience)), job.Succeeded, false) })
	}
	all.Wait()
}

func retryableFailure(b *bundle) {
	b.server.Behave(FailRetryable)
	b.want(b.deliver(b.Context(), b.attempt(1, patience)), job.Failed, true)
}

func finalFailure(b *bundle) {
	b.server.Behave(FailFinal)
	b.want(b.deliver(b.Context(), b.attempt(1, patience)), job.Failed, false)
}

// timeout: the target itself enforces the attempt's timeout, whatever the context allows.
func timeout(b *bundle) {
	b.server.Behave(Hang)
	defer b.server.Release()
	done := b.start(b.Context(), b.attempt(1, short))
	b.want(await(b, "the timeout", done), job.Failed, true)
}

// cancelled: Deliver returns immediately when ctx is cancelled, while the server still works.
func cancelled(b *bundle) {
	b.server.Behave(Hang)
	defer b.server.Release()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	done := b.start(ctx, b.attempt(1, patience))
	await(b, "the delivery", b.server.Received())
	cancel()
	b.want(await(b, "the return after cancel", done), job.Failed, true)
}

// slow: a slow response within the timeout is not a failure.
func slow(b *bundle) {
	b.server.Behave(Hang)
	done := b.start(b.Context(), b.attempt(1, patience))
	await(b, "the delivery", b.server.Received())
	select {
	case out := <-done:
		b.Errorf("Deliver did not wait for the response: %+v", out)
	default:
	}
	b.server.Release()
	b.want(await(b, "the outcome", done), job.Succeeded, false)
}

// huge: a huge response does not fail a run and does not fill the node's memory, and the next delivery
// works.
func huge(b *bundle) {
	b.server.Behave(Huge)
	b.want(b.deliver(b.Context(), b.attempt(1, patience)), job.Succeeded, false)
	b.server.Behave(HugeFailure)
	b.want(b.deliver(b.Context(), b.attempt(1, patience)), job.Failed, true)
	b.server.Behave(Succeed)
	b.want(b.deliver(b.Context(), b.attempt(1, patience)), job.Succeeded, false)
}

// downAndBack: a target reconnects after the server was down.
func downAndBack(b *bundle) {
	b.want(b.deliver(b.Context(), b.attempt(1, patience)), job.Succeeded, false)
	b.server.Behave(Down)
	for n := range int16(3) {
		b.want(b.deliver(b.Context(), b.attempt(n+1, patience)), job.Failed, true)
	}
	b.server.Behave(Succeed)
	b.want(b.deliver(b.Context(), b.attempt(4, patience)), job.Succeeded, false)
}

// sameKey: a receiver can recognise a run that it has seen before, and learns the number of the attempt.
func sameKey(b *bundle) {
	for n, number := range []string{"1", "2"} {
		a := b.attempt(int16(n+1), patience)
		b.want(b.deliver(b.Context(), a), job.Succeeded, false)
		want := Delivery{
			IdempotencyKey: job.FormatRunID(a.Key), RunID: job.FormatRunID(a.Key), JobID: job.FormatJobID(a.Key.Job),
			DueAt: "2026-03-29T01:30:00.000120Z", Attempt: number, Traceparent: trace.Parent(&a), Payload: a.Payload,
		}
		if got := await(b, "the delivery", b.server.Received()); got != want {
			b.Errorf("received %+v; want %+v", got, want)
		}
	}
}

// secretsHidden: no outcome contains a secret, even if the server repeats it. deliver checks the outcomes.
func secretsHidden(b *bundle) {
	b.server.Behave(Echo)
	b.want(b.deliver(b.Context(), b.attempt(1, patience)), job.Failed, true)
	b.server.Behave(Down)
	b.want(b.deliver(b.Context(), b.attempt(2, patience)), job.Failed, true)
}

// boundSecrets: a target reads a secret for its own kind and hosts. If the secret is bound to others, the run fails
// permanently, and nothing is sent.
func boundSecrets(b *bundle) {
	uses := b.target.Uses(b.config)
	use := uses.SecretUse
	switch {
	case slices.Contains(uses.InHeader, SecretName):
		use.Kind = access.KindHeader
	case !slices.Contains(uses.Names, SecretName):
		b.Fatalf("Uses(the config) does not name the secret: %+v", uses)
	}
	for _, elsewhere := range []access.SecretBinding{
		{Hosts: []string{"other.example.com"}},
		{Kinds: []string{"other"}},
		{Hosts: uses.Hosts, Kinds: []string{"other"}},
		{Hosts: []string{"other.example.com"}, Kinds: []string{use.Kind}},
	} {
		b.stored.binding = elsewhere
		out := b.deliver(b.Context(), b.attempt(1, patience))
		b.want(out, job.Failed, false)
		if !strings.Contains(out.Message, "the secret "+SecretName+" may only be ") {
			b.Errorf("the message does not say why: %q", out.Message)
		}
		if elsewhere.Check(SecretName, use) == nil {
			b.Errorf("Uses(the config) = %+v, so it could be saved for a secret that is bound to %+v", uses, elsewhere)
		}
	}
	select {
	case d := <-b.server.Received():
		b.Errorf("it was sent: %+v", d)
	default:
	}
	b.stored.binding = access.SecretBinding{Hosts: uses.Hosts, Kinds: []string{use.Kind}}
	b.want(b.deliver(b.Context(), b.attempt(1, patience)), job.Succeeded, false)
}
