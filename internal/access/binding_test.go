package access_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/problem"
)

func TestSecretBinding(t *testing.T) {
	t.Parallel()
	hosts := access.SecretBinding{Hosts: []string{"hooks.example.com", "*.example.org", "10.0.0.5", "fd00::5"}}
	idn := access.SecretBinding{Hosts: []string{"api.github.example", "kafka.example"}}
	for _, c := range []struct {
		binding access.SecretBinding
		kind    string
		to      string // hosts, with spaces between them
		refused string // what the message says; empty: it is allowed
	}{
		{access.SecretBinding{}, "http", "anywhere.example", ""},
		{access.SecretBinding{}, "command", "", ""},
		{hosts, "http", "hooks.example.com", ""},
		{hosts, "http", "HOOKS.example.com.", ""},
		{hosts, "http", "a.example.org", ""},
		{hosts, "http", "a.b.example.org", ""},
		{hosts, "http", "10.0.0.5", ""},
		{hosts, "http", "FD00::5", ""},
		{hosts, "kafka", "a.example.org b.example.org", ""},
		{hosts, "http", "example.org", "not to example.org"},
		{hosts, "http", ".example.org", "not to .example.org"},
		{hosts, "http", "evilexample.org", "not to evilexample.org"},
		{hosts, "http", "hooks.example.com.evil.example", "not to"},
		{hosts, "http", "xhooks.example.com", "not to"},
		{hosts, "http", "10.0.0.50", "not to"},
		{hosts, "kafka", "a.example.org evil.example", "not to evil.example"},
		{hosts, "kafka", "evil.example a.example.org", "not to evil.example"},
		{hosts, "command", "", "sent to hooks.example.com, *.example.org, 10.0.0.5 and 1 more, not to a command"},
		// What a resolver makes of these names is not what case folding makes of them.
		{idn, "http", "api.github.example", ""},
		{idn, "http", "API.GITHUB.EXAMPLE", ""},
		{idn, "http", "api.g\u0130thub.example", "not to api.g"},
		{idn, "http", "\u212aafka.example", "not to"},
		{idn, "http", "api.github\u3002example", "not to"},
		{hosts, "http", "fd00::5%eth0", "not to"},
		{hosts, "http", "fe80::1%a.example.org", "not to"},
		{hosts, "http", "a:b.example.org", "not to"},
		{access.SecretBinding{Kinds: []string{"command"}}, "command", "", ""},
		{access.SecretBinding{Kinds: []string{"command"}}, "http", "a.example", "of kind command, not http"},
		{access.SecretBinding{}, access.KindURL, "a.example", ""},
		{hosts, access.KindURL, "a.example.org", "part of a URL if its kinds include http_url"},
		{access.SecretBinding{Kinds: []string{"http"}}, access.KindURL, "a.example", "part of a URL if"},
		{access.SecretBinding{hosts.Hosts, []string{access.KindURL}}, access.KindURL, "a.example.org", ""},
		{access.SecretBinding{hosts.Hosts, []string{access.KindURL}}, access.KindURL, "b.example", "not to b.example"},
		{access.SecretBinding{}, access.KindHeader, "a.example", ""},
		{hosts, access.KindHeader, "a.example.org", "in a header of a message if its kinds include message_header"},
		{access.SecretBinding{Kinds: []string{"kafka"}}, access.KindHeader, "a.example", "in a header of a message if"},
		{access.SecretBinding{hosts.Hosts, []string{access.KindHeader}}, access.KindHeader, "a.example.org", ""},
		{access.SecretBinding{hosts.Hosts, []string{access.KindHeader}}, access.KindHeader, "b.example", "not to b.example"},
		{access.SecretBinding{Kinds: []string{access.KindHeader}}, "kafka", "a.example", "of kind message_header, not kafka"},
		{access.SecretBinding{hosts.Hosts, []string{access.KindURL}}, "http", "a.example.org", "of kind http_url, not http"},
		{access.SecretBinding{[]string{"a.example"}, []string{"kafka"}}, "http", "a.example", "of kind kafka, not http"},
	} {
		err := c.binding.Check("token", access.SecretUse{Kind: c.kind, Hosts: strings.Fields(c.to)})
		if c.refused == "" {
			require.NoError(t, err, "%s %s", c.kind, c.to)
			continue
		}
		require.ErrorContains(t, err, c.refused)
		require.ErrorContains(t, err, "the secret token may only be")
	}
}

func TestSecretBindingIsValidated(t *testing.T) {
	t.Parallel()
	good := access.SecretBinding{Hosts: []string{"a", "a-b.example", "*.example.com", "::1"}, Kinds: access.SecretKinds}
	require.NoError(t, good.Validate())
	for _, host := range []string{
		"", "*", "a.*.example", "https://a.example", "a.example:443", "a.example/x", "A.example", "a example", "-a", "a-",
		strings.Repeat("a", 300), "g\u0131thub.example", "\u212aafka.example", "a\u3002example", "fe80::1%eth0", "*.1::2",
	} {
		found := problem.All(access.SecretBinding{Hosts: []string{host}}.Validate())
		require.Len(t, found, 1, host)
		require.Equal(t, "hosts.0", found[0].Field)
	}
	require.Error(t, access.SecretBinding{Kinds: []string{"pigeon"}}.Validate())
	require.Error(t, access.SecretBinding{Hosts: make([]string, 101)}.Validate())
}
