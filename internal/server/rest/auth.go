package rest

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// Keys is the part of the store that authentication needs.
type Keys interface {
	Principal(ctx context.Context, hash [32]byte) (access.Principal, error)
	KeyHashes(ctx context.Context) ([][8]byte, error)
}

type (
	principalKey struct{}
	reportKey    struct{}
)

// Principal returns the key that sent the request. It is the only source of the namespace of a request.
func Principal(ctx context.Context) access.Principal {
	p, _ := ctx.Value(principalKey{}).(access.Principal)
	return p
}

// Report returns the run and attempt that a report is about, in operations ByToken.
func Report(ctx context.Context) access.Report {
	r, _ := ctx.Value(reportKey{}).(access.Report)
	return r
}

// ForgetKey makes a revoked key useless on this node at once. Other nodes accept it for up to keyTTL.
func (a *API) ForgetKey(id uuid.UUID) { a.keys.forget(id) }

// authenticate lets a request pass if its key has the role that the operation needs.
func (a *API) authenticate(ctx huma.Context, next func(huma.Context)) {
	r := recordOf(ctx.Context())
	r.operation = ctx.Operation().OperationID
	for _, p := range ctx.Operation().Parameters {
		if p.In == "path" {
			r.object = p.Name
		}
	}
	role := roleOf(ctx.Operation())
	if role == ByToken {
		a.authenticateReport(ctx, next)
		return
	}
	p, err := a.identify(ctx.Context(), ctx.Header("Authorization"), ctx.RemoteAddr())
	if err != nil {
		a.reject(ctx, err)
		return
	}
	r.key, r.namespace = p.Key, p.NamespaceName
	done, err := a.limiter.enter(p.Key)
	if err != nil {
		a.reject(ctx, err)
		return
	}
	done = sync.OnceFunc(done)
	defer done()
	r.release = append(r.release, done)
	if err := authorize(p, role, ctx.Param("queue")); err != nil {
		a.reject(ctx, err)
		return
	}
	next(huma.WithValue(ctx, principalKey{}, p))
}

// authorize returns a problem if the principal lacks the role, or is a worker of other queues.
func authorize(p access.Principal, role access.Role, queue string) error {
	if !p.Role.May(role) {
		return NewProblem("forbidden", "this needs the role "+string(role)+", and the key has "+string(p.Role))
	}
	if role == access.Worker && !p.Serves(queue) {
		return NewProblem("forbidden",
			"the key is not one of this queue; belfry key create --role worker --queue makes one")
	}
	return nil
}

// authenticateReport lets a report pass if its token is for the run in the path.
func (a *API) authenticateReport(ctx huma.Context, next func(huma.Context)) {
	scheme, token, _ := strings.Cut(ctx.Header("Authorization"), " ")
	r, err := access.ParseReport(a.opts.ReportKey, strings.TrimSpace(token))
	switch {
	case !strings.EqualFold(scheme, "Bearer") || err != nil:
		a.reject(ctx, NewProblem("unauthenticated", "send the token that came with the run, "+
			"as Authorization: Bearer bfr_…; a key will not do"))
		return
	case job.FormatRunID(r.Key) != ctx.Param("run"):
		a.reject(ctx, NewProblem("forbidden", "the token is of another run"))
		return
	}
	// The limit is per namespace: targets that report too often slow down only their own namespace.
	done, err := a.limiter.enter(r.Namespace)
	if err != nil {
		a.reject(ctx, err)
		return
	}
	defer done()
	next(huma.WithValue(ctx, reportKey{}, r))
}

// reject answers a request before its operation is reached.
func (a *API) reject(ctx huma.Context, err error) {
	_, w := humago.Unwrap(ctx)
	p := a.Problem(ctx.Context(), err)
	switch p.Code {
	case "unauthenticated":
		w.Header().Set("WWW-Authenticate", `Bearer realm="belfry"`)
	case "rate_limited", "unavailable":
		w.Header().Set("Retry-After", retryAfter)
	}
	writeProblem(w, p)
}

// identify returns the principal of a request, by the header Authorization.
func (a *API) identify(ctx context.Context, header, address string) (p access.Principal, err error) {
	scheme, secret, _ := strings.Cut(header, " ")
	if header == "" || !strings.EqualFold(scheme, "Bearer") {
		return p, NewProblem("unauthenticated",
			"send a key: Authorization: Bearer bfk_…; belfry key create makes one")
	}
	hash, err := access.KeyHash(strings.TrimSpace(secret))
	if err != nil {
		return p, NewProblem("unauthenticated", "that is not a key of Belfry; is it complete?")
	}
	p, fresh, known := a.keys.get(hash)
	if fresh {
		return p, nil
	}
	// Guessing keys is hopeless; this limit keeps guesses away from the database. Behind a proxy all clients
	// share one address, so a key that exists is accepted even while the address is over its limit.
	if !known && !a.failures.mayTry(address) && !a.hashes.has(ctx, a.opts.Keys, hash) {
		return p, NewProblem("rate_limited", "too many unknown keys came from this address; wait a second")
	}
	lookedUpAt := clock.Elapsed()
	limited, cancel := context.WithTimeout(ctx, keyLimit)
	defer cancel()
	p, err = a.opts.Keys.Principal(limited, hash)
	switch {
	case errors.Is(err, job.ErrNotFound):
		a.keys.drop(hash)
		a.failures.count(address)
		return p, NewProblem("unauthenticated", "the key is unknown, revoked or expired")
	case err != nil:
		recordOf(ctx).err = err
		return p, NewProblem("unavailable", "the database does not answer; try again")
	}
	a.keys.put(hash, p, lookedUpAt)
	return p, nil
}
