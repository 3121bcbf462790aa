package target_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
)

// TestSecretsStayEncrypted: with the option, a job that sends a secret in clear text to another machine can neither be
// saved nor delivered.
func TestSecretsStayEncrypted(t *testing.T) {
	t.Parallel()
	const refused = "would be sent over the network without encryption"
	all := target.New(target.Options{Secrets: password{}})
	strict := target.New(target.Options{Secrets: password{}, Encrypted: true})
	require.Len(t, strict, len(all))
	for _, c := range []struct {
		kind, config string
		clear        bool
	}{
		{"http", `{"url":"http://10.0.0.1/","auth":{"bearer":{"secret":"a"}}}`, true},
		{"http", `{"url":"https://10.0.0.1/","auth":{"bearer":{"secret":"a"}}}`, false},
		{"http", `{"url":"http://127.0.0.1/","auth":{"bearer":{"secret":"a"}}}`, false},
		{"http", `{"url":"http://10.0.0.1/"}`, false},
	} {
		require.NoError(t, all[c.kind].Check(json.RawMessage(c.config)))
		a := brokertest.Attempt(c.kind, c.config)
		require.NotContains(t, all[c.kind].Deliver(t.Context(), a).Message, refused, "it is allowed")
		err, out := strict[c.kind].Check(json.RawMessage(c.config)), strict[c.kind].Deliver(t.Context(), a)
		if !c.clear {
			require.NoError(t, err, c.config)
			require.NotContains(t, out.Message, refused, c.config)
			continue
		}
		require.ErrorContains(t, err, "without encryption", c.config)
		require.Equal(t, job.Failed, out.Kind, c.config)
		require.False(t, out.Retryable, c.config)
		require.Contains(t, out.Message, refused, c.config)
	}
	for kind := range all {
		all[kind].Close()
		strict[kind].Close()
	}
}
