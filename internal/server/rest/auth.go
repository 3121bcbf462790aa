package rest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// Keys is the part of the store that authentication needs.
type Keys interface {
	Principal(ctx context.Context, hash [32]byte) (access.Principal, error)
	// LoginPrincipal finds the key or the person of a login session, and extends the session. A person has no role yet.
	LoginPrincipal(ctx context.Context, hash [32]byte) (access.Principal, error)
	KeyHashes(ctx context.Context) ([][8]byte, error)
}

type (
	principalKey struct{}
	reportKey    struct{}
)

// Principal returns the key or the person that sent the request. It is the only source of the namespace of a request.
func Principal(ctx context.Context) access.Principal {
	p, _ := ctx.Value(principalKey{}).(access.Principal)
	return p
}

// Report returns the run and attempt that a report is about, in operations ByToken.
func Report(ctx context.Context) access.Report {
	r, _ := ctx.Value(reportKey{}).(access.Report)
	return r
}

// ForgetKey makes a revoked key, and the ended login sessions of a key or a person, useless on this node at once. Other
// nodes accept them for up to keyTTL.
func (a *API) ForgetKey(id uuid.UUID) { a.keys.forget(id) }

// authenticate lets a request pass if its key, or the key of its login session, has the role that the operation needs.
func (a *API) authenticate(ctx huma.Context, next func(huma.Context)) {
	r := recordOf(ctx.Context())
	r.operation = ctx.Operation().OperationID
	for _, p := range ctx.Operation().Parameters {
		if p.In == "path" {
			r.object = p.Name
		}
	}
	role := roleOf(ctx.Operation())
	switch role {
	case ByToken:
		a.authenticateReport(ctx, next)
		return
	case Public:
		a.authenticateNobody(ctx, next)
		return
	}
	request, _ := humago.Unwrap(ctx)
	p, err := a.identify(request)
	if err != nil {
		a.reject(ctx, err)
		return
	}
	r.caller = p
	done, err := a.limiter.enter(p.Key)
	if err != nil {
		a.reject(ctx, err)
		return
	}
	r.release = sync.OnceFunc(done)
	defer r.release()
	if p := r.slot.take(p.Namespace); p != nil {
		a.reject(ctx, p)
		return
	}
	queue := ctx.Param("queue")
	if err := authorize(p, role, queue); err != nil {
		a.reject(ctx, err)
		return
	}
	r.check = func() error {
		p, err := a.identify(request)
		if err == nil {
			err = authorize(p, role, queue)
		}
		return err
	}
	next(huma.WithValue(ctx, principalKey{}, p))
}

// authorize returns a problem if the principal lacks the role, or is a worker of other queues.
func authorize(p access.Principal, role access.Role, queue string) error {
	if p.Namespace == access.CanaryNamespace && !access.Viewer.May(role) {
		return NewProblem("forbidden", "nothing can be changed in the namespace "+access.CanaryName+", which nodes use")
	}
	if !p.Role.May(role) {
		return NewProblem("forbidden", "this needs the role "+string(role)+", and "+holder(p)+" "+string(p.Role))
	}
	if role == access.Worker && !p.Serves(queue) {
		return NewProblem("forbidden",
			"the key is not one of this queue; belfry key create --role worker --queue makes one")
	}
	return nil
}

func holder(p access.Principal) string {
	if p.IsPerson() {
		return "your groups give you"
	}
	return "the key has"
}

// authenticateReport lets a report pass if its token is for the run in the path.
func (a *API) authenticateReport(ctx huma.Context, next func(huma.Context)) {
	scheme, token, _ := strings.Cut(ctx.Header("Authorization"), " ")
	token = strings.TrimSpace(token)
	bearer := strings.EqualFold(scheme, "Bearer")
	r, err := a.opts.ReportKeys.Keys().Parse(token)
	switch {
	case bearer && err != nil && strings.HasPrefix(token, access.ReportPrefix) && a.opts.ReportKeys.Stale():
		a.reject(ctx, NewProblem("unavailable", "this node could not read the keys of run tokens lately, and knows none "+
			"that has signed this one; try again"))
		return
	case !bearer || err != nil:
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
	if p := recordOf(ctx.Context()).slot.take(r.Namespace); p != nil {
		a.reject(ctx, p)
		return
	}
	next(huma.WithValue(ctx, reportKey{}, r))
}

// authenticateNobody lets a request pass without a key, unless a page of another site sent it.
func (a *API) authenticateNobody(ctx huma.Context, next func(huma.Context)) {
	r, _ := humago.Unwrap(ctx)
	if err := a.checkOrigin(r); err != nil {
		a.reject(ctx, err)
		return
	}
	next(ctx)
}

// reject answers a request before its operation is reached.
func (a *API) reject(ctx huma.Context, err error) {
	_, w := humago.Unwrap(ctx)
	p := a.Problem(ctx.Context(), err)
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	writeProblem(w, p)
}

// identify returns the principal of a request: by the header Authorization, else by the cookie of a login session.
func (a *API) identify(r *http.Request) (p access.Principal, err error) {
	header, session := r.Header.Get("Authorization"), sessionSecret(r)
	scheme, secret, _ := strings.Cut(header, " ")
	switch {
	case header == "" && session != "":
		if err := a.checkOrigin(r); err != nil {
			return p, err
		}
		if err := checkIntent(r); err != nil {
			return p, err
		}
		return a.identifyLogin(r.Context(), session, r.RemoteAddr)
	case !strings.EqualFold(scheme, "Bearer"):
		return p, NewProblem("unauthenticated",
			"send a key: Authorization: Bearer bfk_…; belfry key create makes one")
	}
	return a.identifyKey(r.Context(), strings.TrimSpace(secret), r.RemoteAddr)
}

func (a *API) identifyKey(ctx context.Context, secret, address string) (p access.Principal, err error) {
	hash, err := access.KeyHash(secret)
	if err != nil {
		return p, NewProblem("unauthenticated", "that is not a key of Belfry; is it complete?")
	}
	p, err = a.find(ctx, credential{hash, address, a.opts.Keys.Principal})
	if errors.Is(err, job.ErrNotFound) {
		return p, NewProblem("unauthenticated", "the key is unknown, revoked or expired")
	}
	return p, err
}

func (a *API) identifyLogin(ctx context.Context, secret, address string) (p access.Principal, err error) {
	ended := NewProblem("unauthenticated", "the session has ended; log in again")
	hash, err := access.LoginHash(secret)
	if err != nil {
		return p, ended
	}
	p, err = a.find(ctx, credential{hash, address, a.loginPrincipal})
	if errors.Is(err, job.ErrNotFound) {
		return p, ended
	}
	return p, err
}

// loginPrincipal finds who has a login session. What a person may do follows from the configuration of this node, so a
// session of a person whom the configuration no longer knows has ended.
func (a *API) loginPrincipal(ctx context.Context, hash [32]byte) (p access.Principal, err error) {
	p, err = a.opts.Keys.LoginPrincipal(ctx, hash)
	if err != nil || !p.IsPerson() {
		return p, err
	}
	role, ok := a.opts.Provider.Roles(p.Person)[p.NamespaceName]
	if !ok {
		return p, job.ErrNotFound
	}
	p.Role = role
	return p, nil
}

// credential is the hash of a secret, where it came from, and how the store finds who has it.
type credential struct {
	hash    [32]byte
	address string
	lookup  func(ctx context.Context, hash [32]byte) (access.Principal, error)
}

// find returns the principal of a credential. ErrNotFound: it is not valid.
func (a *API) find(ctx context.Context, c credential) (p access.Principal, err error) {
	p, fresh, known := a.keys.get(c.hash)
	if fresh {
		return p, nil
	}
	// Guessing keys is hopeless; this limit keeps guesses away from the database. Behind a proxy all clients
	// share one address, so a key that exists is accepted even while the address is over its limit.
	if !known && !a.failures.mayTry(c.address) && !a.hashes.has(ctx, a.opts.Keys, c.hash) {
		return p, tooManyFailures()
	}
	began := a.keys.begin()
	limited, cancel := context.WithTimeout(ctx, keyLimit)
	defer cancel()
	p, err = c.lookup(limited, c.hash)
	switch {
	case errors.Is(err, job.ErrNotFound):
		a.keys.drop(c.hash)
		a.failures.count(c.address)
		return p, err
	case err != nil:
		recordOf(ctx).err = err
		return p, NewProblem("unavailable", "the database does not answer; try again")
	}
	a.keys.put(c.hash, p, began)
	return p, nil
}

func tooManyFailures() *Problem {
	return NewProblem("rate_limited", "too many unknown keys came from this address; wait a second")
}
