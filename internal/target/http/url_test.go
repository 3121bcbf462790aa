package http_test

import (
	"context"
	"fmt"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/target/http"
)

// boundVault has one secret, bound to a host and kinds of targets.
type boundVault struct {
	value string
	host  string
	kinds []string
}

func (v *boundVault) Secret(_ context.Context, _ uuid.UUID, name string, use access.SecretUse) (access.Secret, error) {
	if name == http.DefaultSigning {
		return access.Secret{}, &access.NotAllowedError{}
	}
	return access.Secret{Values: []string{v.value}}, access.SecretBinding{Hosts: []string{v.host}, Kinds: v.kinds}.Check(name, use)
}

// TestSecretsInURLs: secrets in the path and the query of a URL are sent, escaped, and are in no message, although the
// receiver repeats them in all forms. A secret that is bound to another host is not sent.
func TestSecretsInURLs(t *testing.T) {
	t.Parallel()
	requests := make(chan *nethttp.Request, 1)
	srv := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		requests <- r
		w.WriteHeader(nethttp.StatusBadRequest)
		_, _ = fmt.Fprintf(w, "%s %s %q %v %v",
			r.RequestURI, r.URL.Path, r.URL.Path, r.URL.Query(), strings.Split(r.RequestURI, "/"))
	}))
	t.Cleanup(srv.Close)
	vault := &boundVault{host: "127.0.0.1", kinds: []string{access.KindURL}}
	target := newTarget(t, http.Options{Secrets: vault})
	config := fmt.Sprintf(`{"url": "%s/a%%2Fb/services/x-${secret.hook}/${other}?k=${secret.hook}&x=1"}`, srv.URL)
	require.NoError(t, target.Check([]byte(config)))
	require.Empty(t, target.Uses([]byte(config)).Names)
	require.Equal(t, []string{"hook"}, target.Uses([]byte(config)).InURL)
	for value, want := range map[string]string{
		"canary-one":             "/a/b/services/x-canary-one/${other}?k=canary-one&x=1",
		"canary-T0/c/canary-xxx": "/a/b/services/x-canary-T0/c/canary-xxx/${other}?k=canary-T0%2Fc%2Fcanary-xxx&x=1",
		"canary?a=b#c%2F&d é":    "/a/b/services/x-canary?a=b#c%2F&d é/${other}?k=canary%3Fa%3Db%23c%252F%26d+%C3%A9&x=1",
		"//canary.example/../x":  "/a/b/services/x-//canary.example/../x/${other}?k=%2F%2Fcanary.example%2F..%2Fx&x=1",
	} {
		vault.value = value
		out := target.Deliver(t.Context(), attempt(config))
		require.Equal(t, nethttp.StatusBadRequest, out.Status, out.Message)
		got := <-requests
		require.Equal(t, want, got.URL.Path+"?"+got.URL.RawQuery)
		require.Equal(t, strings.TrimPrefix(srv.URL, "http://"), got.Host)
		require.Contains(t, out.Message, "[hidden]")
		require.NotContains(t, out.Message, "canary")
		require.Contains(t, out.Message, "services", "a word is no secret")
	}
	for value, why := range map[string]string{
		"canary\nline": "control character", strings.Repeat("canary", 400): "too long",
	} {
		vault.value = value
		out := target.Deliver(t.Context(), attempt(config))
		require.False(t, out.Retryable)
		require.Contains(t, out.Message, why)
		require.NotContains(t, out.Message, "canary")
	}
	vault.value, vault.host = "canary-one", "other.example.com"
	out := target.Deliver(t.Context(), attempt(config))
	require.False(t, out.Retryable)
	require.Contains(t, out.Message, "the secret hook may only be sent to other.example.com")
	// Whoever names the host of a binding in a job also chooses the path, and so who there receives the URL.
	for _, kinds := range [][]string{nil, {"http"}} {
		vault.host, vault.kinds = "127.0.0.1", kinds
		out = target.Deliver(t.Context(), attempt(config))
		require.False(t, out.Retryable)
		require.Contains(t, out.Message, "the secret hook may only be part of a URL if its kinds include http_url")
	}
	require.Empty(t, requests)
}

func TestCheckSecretsInURLs(t *testing.T) {
	t.Parallel()
	target := newTarget(t, http.Options{})
	for _, url := range []string{
		"${secret.a}://example.com/", "https://${secret.a}/x", "https://example.com:${secret.a}/x",
		"https://${secret.a}@example.com/x", "https://a:${secret.a}@example.com/x", "https://${secret.a}.example.com",
		"https:${secret.a}", "https://example.com/x#${secret.a}", "https://example.com/${secret.a",
		"https://example.com/${secret.}", "https://example.com/${secret.NOT a name}",
		"https://example.com/" + strings.Repeat("${secret.a}", 9),
	} {
		err := target.Check(fmt.Appendf(nil, `{"url": %q}`, url))
		require.ErrorContains(t, err, "it has a secret in the wrong place", url)
	}
	for _, url := range []string{
		"https://example.com/${secret.a}", "https://example.com?${secret.a}=${secret.b}", "https://example.com/${payload}",
		"https://example.com/" + strings.Repeat("${secret.a}", 8),
	} {
		require.NoError(t, target.Check(fmt.Appendf(nil, `{"url": %q}`, url)), url)
	}
	// Escaped braces are text.
	require.Empty(t, target.Uses([]byte(`{"url": "https://example.com/$%7Bsecret.a%7D"}`)).InURL)
}
