package broker_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// boundSecret is a source that has one secret, with a binding.
type boundSecret access.SecretBinding

func (b boundSecret) Secret(_ context.Context, _ uuid.UUID, name string, use access.SecretUse) (access.Secret, error) {
	return access.Secret{Values: []string{"canary"}}, access.SecretBinding(b).Check(name, use)
}

// TestBoundSecretsInHeaders: a bound secret is in a header of messages only if its kinds say so, because the editor of a
// job chooses the topic. A secret that is bound to hosts
// is in none, because the hosts of a broker are the operator's.
func TestBoundSecretsInHeaders(t *testing.T) {
	t.Parallel()
	raw := `{"broker": "a", "headers": {"x": {"secret": "p"}}}`
	r, c := broker.Read([]byte(raw), broker.Form{
		Kind: "kafka", Example: raw, ValidHeader: func(string) bool { return true },
	})
	require.NoError(t, r.Err())
	uses := c.Uses()
	require.Equal(t, []string{"p"}, uses.All())
	require.Equal(t, []string{"p"}, uses.InHeader)
	for _, test := range []struct {
		binding access.SecretBinding
		want    string
	}{
		{access.SecretBinding{}, ""},
		{access.SecretBinding{Hosts: []string{"a.example"}}, "may only be in a header of a message if"},
		{access.SecretBinding{Kinds: []string{"kafka"}}, "may only be in a header of a message if"},
		{access.SecretBinding{Kinds: []string{"kafka", access.KindHeader}}, ""},
		{access.SecretBinding{Hosts: []string{"b.example"}, Kinds: []string{access.KindHeader}}, "not to a message_header"},
	} {
		_, err := c.Message(t.Context(), &broker.Options{Secrets: boundSecret(test.binding)}, &job.Attempt{})
		if test.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, test.want)
	}
}
