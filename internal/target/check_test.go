package target_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target"
	"github.com/belfry-dev/belfry/internal/target/http"
)

type bindings map[string]access.SecretBinding

func (b bindings) SecretBindings(
	context.Context, uuid.UUID, []string,
) (map[string]access.SecretBinding, error) {
	return b, nil
}

func (bindings) Brokers(context.Context, uuid.UUID) ([]access.BrokerInfo, error) {
	return []access.BrokerInfo{{Name: "events", Kind: "nats"}, {Name: "orders", Kind: "kafka"}}, nil
}

// asked records the names that were read, and fails.
type asked struct {
	names [][]string
	err   error
}

func (a *asked) Brokers(context.Context, uuid.UUID) ([]access.BrokerInfo, error) { return nil, a.err }

func (a *asked) SecretBindings(
	_ context.Context, _ uuid.UUID, names []string,
) (map[string]access.SecretBinding, error) {
	a.names = append(a.names, names)
	return nil, a.err
}

// TestBindingsAreReadOnce: a request reads the bindings that its jobs name, each once, and none after an error.
func TestBindingsAreReadOnce(t *testing.T) {
	t.Parallel()
	store := &asked{}
	checks := target.Checks{Targets: map[string]target.Target{"http": http.New(http.Options{})}, Bindings: store}
	config := func(path, header string) job.Target {
		return job.Target{Kind: "http", Config: []byte(
			`{"url": "https://b.example/${secret.` + path + `}", "headers": {"X-A": {"secret": "` + header + `"}}}`)}
	}
	check := checks.New(t.Context(), access.Principal{})
	for _, path := range []string{"a", "b", "a", "b"} {
		require.NoError(t, check(config(path, "a")))
	}
	require.Equal(t, [][]string{{"a"}, {"b"}}, store.names)
	store.names, store.err = nil, errors.New("no database")
	check = checks.New(t.Context(), access.Principal{})
	for _, path := range []string{"a", "b"} {
		require.ErrorIs(t, check(config(path, "a")), store.err)
	}
	require.Len(t, store.names, 1)
}

// TestProblemOfASecretOnce: a secret that a config names often is one problem.
func TestProblemOfASecretOnce(t *testing.T) {
	t.Parallel()
	check := target.Checks{
		Targets:  map[string]target.Target{"http": http.New(http.Options{})},
		Bindings: bindings{"a": {Hosts: []string{"a.example"}}},
	}.New(t.Context(), access.Principal{})
	err := check(job.Target{Kind: "http", Config: []byte(
		`{"url": "https://b.example", "headers": {"X-A": {"secret": "a"}, "X-B": {"secret": "a"}}}`)})
	require.Len(t, problem.All(err), 1)
}

// TestBoundSecretsInURLs: a job with a bound secret in its URL is saved only if the binding allows URLs.
func TestBoundSecretsInURLs(t *testing.T) {
	t.Parallel()
	here := []string{"a.example"}
	check := target.Checks{
		Targets: map[string]target.Target{"http": http.New(http.Options{})},
		Bindings: bindings{
			"bound": {Hosts: here}, "kind": {Kinds: []string{"http"}}, "url": {Hosts: here, Kinds: []string{"http_url"}},
		},
	}.New(t.Context(), access.Principal{})
	for name, refused := range map[string]bool{"free": false, "url": false, "bound": true, "kind": true} {
		err := check(job.Target{Kind: "http", Config: []byte(`{"url": "https://a.example/${secret.` + name + `}"}`)})
		if !refused {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, "the secret "+name+" may only be part of a URL if its kinds include http_url")
	}
}

// TestBrokersOfJobs: a job names a broker of its kind that the namespace may use. Otherwise the problem names those.
func TestBrokersOfJobs(t *testing.T) {
	t.Parallel()
	check := target.Checks{Targets: target.New(target.Options{}), Bindings: bindings{}}.New(t.Context(), access.Principal{})
	for name, want := range map[string]string{
		"events":  "",
		"orders":  "the broker orders is of kind kafka",
		"unknown": "there is no broker of that name that this namespace may use",
	} {
		err := check(job.Target{Kind: "nats", Config: []byte(`{"broker": "` + name + `", "subject": "x"}`)})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		found := problem.All(err)
		require.Len(t, found, 1)
		require.Equal(t, "target.config.broker", found[0].Field)
		require.Equal(t, want, found[0].Problem)
		require.NotEmpty(t, found[0].Fix)
	}
}
