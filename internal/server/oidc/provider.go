package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
)

const (
	callTimeout = 10 * time.Second // of one request to the provider
	maxAnswer   = 256 << 10        // bytes of one answer of the provider
	retryPause  = time.Second      // after a failed discovery
)

// Config is how the provider is reached, and what of its tokens matters.
type Config struct {
	Issuer       string
	ClientID     string
	ClientSecret string // empty: a public client
	Scopes       []string
	NameClaim    string
	GroupsClaim  string
}

var (
	// errUnreachable says that the provider did not answer, or not as the standard demands.
	errUnreachable = errors.New("the identity provider does not answer")
	// errRefused says that the provider, or the check of its answer, refused the login.
	errRefused = errors.New("the login was refused")
)

// algorithms of signatures that are accepted. All are asymmetric: with others, whoever can check a token can make one.
var algorithms = []string{
	goidc.RS256, goidc.RS384, goidc.RS512, goidc.PS256, goidc.PS384, goidc.PS512, goidc.ES256, goidc.ES384, goidc.ES512,
	goidc.EdDSA,
}

// provider talks to an identity provider. It is safe for concurrent use.
type provider struct {
	config Config
	client *http.Client

	mu      sync.Mutex
	found   *discovered   // nil until the first success
	call    *discovery    // in progress
	failed  error         // of the last discovery
	retryAt time.Duration // by clock.Elapsed
}

// discovered is what the provider says about itself. It is read once: its keys are read again when a token has a new one.
type discovered struct {
	*goidc.Provider
	verifier *goidc.IDTokenVerifier
	style    oauth2.AuthStyle
}

type discovery struct {
	done  chan struct{}
	found *discovered
	err   error
}

func newProvider(c Config) *provider {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library's
	transport.MaxConnsPerHost, transport.ResponseHeaderTimeout = 16, callTimeout
	return &provider{config: c, client: &http.Client{
		Transport: bounded{transport}, Timeout: callTimeout,
		// A redirect would send the client's secret to an address that the operator did not configure.
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("the provider redirects; it must not") },
	}}
}

// bounded limits the size of answers.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{&limited{resp.Body, maxAnswer}, resp.Body}
	return resp, nil
}

// limited fails where io.LimitedReader would end, so that a part is never taken for the whole.
type limited struct {
	from io.Reader
	left int
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	n, err := l.from.Read(b[:min(len(b), l.left+1)])
	l.left -= n
	return n, err
}

// discover returns what the provider says about itself. All callers wait for the same request, and after a failure none is
// sent for retryPause.
func (p *provider) discover(ctx context.Context) (*discovered, error) {
	p.mu.Lock()
	if p.found != nil || p.failed != nil && clock.Elapsed() < p.retryAt {
		defer p.mu.Unlock()
		return p.found, p.failed
	}
	if p.call == nil {
		p.call = &discovery{done: make(chan struct{})}
		go p.fetch(context.WithoutCancel(ctx), p.call)
	}
	call := p.call
	p.mu.Unlock()
	select {
	case <-call.done:
		return call.found, call.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errUnreachable, ctx.Err())
	}
}

func (p *provider) fetch(ctx context.Context, call *discovery) {
	found, err := p.read(goidc.ClientContext(ctx, p.client))
	if err != nil {
		err = fmt.Errorf("%w: %w", errUnreachable, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found, p.failed, p.call, p.retryAt = found, err, nil, clock.Elapsed()+retryPause
	call.found, call.err = found, err
	close(call.done)
}

func (p *provider) read(ctx context.Context) (*discovered, error) {
	found, err := goidc.NewProvider(ctx, p.config.Issuer)
	if err != nil {
		return nil, err
	}
	var says struct {
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
		Keys        string   `json:"jwks_uri"`
	}
	if err := found.Claims(&says); err != nil {
		return nil, err
	}
	endpoints := []string{found.Endpoint().AuthURL, found.Endpoint().TokenURL, says.Keys}
	if info := found.UserInfoEndpoint(); info != "" {
		endpoints = append(endpoints, info)
	}
	for _, endpoint := range endpoints {
		if err := p.checkEndpoint(endpoint); err != nil {
			return nil, err
		}
	}
	d := &discovered{Provider: found, style: oauth2.AuthStyleInHeader}
	basic := slices.Contains(says.AuthMethods, "client_secret_basic")
	post := slices.Contains(says.AuthMethods, "client_secret_post")
	if p.config.ClientSecret == "" || post && !basic {
		d.style = oauth2.AuthStyleInParams
	}
	d.verifier = found.VerifierContext(ctx, &goidc.Config{
		ClientID: p.config.ClientID, SupportedSigningAlgs: algorithms, Now: clock.Now,
	})
	return d, nil
}

// checkEndpoint rejects an address that would carry secrets in clear text although the issuer is HTTPS.
func (p *provider) checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Host == "":
		return errors.New("its description has no address for the login, the tokens or the keys")
	case strings.HasPrefix(p.config.Issuer, "https:") && u.Scheme != "https":
		return errors.New("its description has an address without TLS")
	}
	return nil
}

func (p *provider) oauth(d *discovered, redirect string) *oauth2.Config {
	endpoint := d.Endpoint()
	endpoint.AuthStyle = d.style
	return &oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret, Endpoint: endpoint, RedirectURL: redirect,
		Scopes: p.config.Scopes,
	}
}

// start returns the address at which a browser logs in.
func (p *provider) start(ctx context.Context, s state) (string, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return p.oauth(d, s.Redirect).AuthCodeURL(s.State, goidc.Nonce(s.Nonce), oauth2.S256ChallengeOption(s.Verifier)), nil
}

// finish trades the code that a browser brought back for the person who logged in.
func (p *provider) finish(ctx context.Context, s state, code string) (person access.Person, err error) {
	ctx, cancel := context.WithTimeout(goidc.ClientContext(ctx, p.client), 2*callTimeout)
	defer cancel()
	d, err := p.discover(ctx)
	if err != nil {
		return person, err
	}
	tokens, err := p.oauth(d, s.Redirect).Exchange(ctx, code, oauth2.VerifierOption(s.Verifier))
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.Response.StatusCode < http.StatusInternalServerError:
		// Not the body: the provider may repeat the code in it.
		return person, fmt.Errorf("%w: the provider did not accept the code: %s", errRefused, short(refused.ErrorCode))
	case err != nil:
		return person, fmt.Errorf("%w: trade the code for a token: %w", errUnreachable, withoutSecrets(err))
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := d.verifier.Verify(ctx, raw)
	if err != nil {
		return person, fmt.Errorf("%w: %w", errRefused, err)
	}
	claims, err := p.check(token, s)
	if err != nil {
		return person, fmt.Errorf("%w: %w", errRefused, err)
	}
	if err := p.addUserInfo(ctx, d, token.Subject, oauth2.StaticTokenSource(tokens), claims); err != nil {
		return person, err
	}
	return p.person(token.Subject, claims)
}

// check checks what go-oidc leaves to its callers, and returns the claims.
func (p *provider) check(token *goidc.IDToken, s state) (map[string]any, error) {
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return nil, err
	}
	azp, has := claims["azp"]
	switch {
	case s.Nonce == "" || token.Nonce != s.Nonce:
		return nil, errors.New("the token is for another login: its nonce differs")
	case has && azp != p.config.ClientID || !has && len(token.Audience) > 1:
		return nil, errors.New("the token was issued to another client")
	case !access.ValidSubject(token.Subject):
		return nil, errors.New("the token has no subject that can be stored")
	}
	return claims, nil
}

// addUserInfo adds the claims that the token does not have, if the provider describes users elsewhere.
func (p *provider) addUserInfo(
	ctx context.Context, d *discovered, subject string, tokens oauth2.TokenSource, claims map[string]any,
) error {
	_, hasGroups := claims[p.config.GroupsClaim]
	_, hasName := claims[p.config.NameClaim]
	if hasGroups && hasName || d.UserInfoEndpoint() == "" {
		return nil
	}
	info, err := d.UserInfo(ctx, tokens)
	if err != nil {
		return fmt.Errorf("%w: read about the user: %w", errUnreachable, withoutSecrets(err))
	}
	if info.Subject != subject {
		return fmt.Errorf("%w: the provider describes another user than the one who logged in", errRefused)
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	for name, value := range more {
		if _, has := claims[name]; !has {
			claims[name] = value
		}
	}
	return nil
}

// person returns who logged in. An address that the provider did not verify is not a name: everyone can claim it.
func (p *provider) person(subject string, claims map[string]any) (access.Person, error) {
	out := access.Person{Issuer: p.config.Issuer, Subject: subject}
	name, _ := claims[p.config.NameClaim].(string)
	verified, has := claims["email_verified"]
	if p.config.NameClaim == "email" && has && verified != true && verified != "true" {
		name = ""
	}
	if out.Name = access.PersonName(name); out.Name == "" {
		out.Name = subject
	}
	switch groups := claims[p.config.GroupsClaim].(type) {
	case string:
		out.Groups = []string{groups}
	case []any:
		for _, g := range groups {
			if text, ok := g.(string); ok {
				out.Groups = append(out.Groups, text)
			}
		}
	case nil:
	default:
		text, _ := json.Marshal(p.config.GroupsClaim)
		return out, fmt.Errorf("%w: the claim %s is not a list of strings", errRefused, text)
	}
	return out, nil
}

// withoutSecrets returns an error of a request without its URL and without the body of the answer.
func withoutSecrets(err error) error {
	var u *url.Error
	var answer *oauth2.RetrieveError
	switch {
	case errors.As(err, &answer):
		return fmt.Errorf("status %d", answer.Response.StatusCode)
	case errors.As(err, &u):
		return u.Err
	}
	return err
}

// short returns an error code of the provider if it is one.
func short(code string) string {
	if len(code) > 60 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "unknown error"
	}
	return code
}
