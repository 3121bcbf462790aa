package broker_test

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

type stored string

func (s stored) Secret(context.Context, uuid.UUID, string) (job.Secret, error) {
	return job.Secret{Values: []string{string(s)}}, nil
}

// No form of a secret that was read is in the message, even where that was cut.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	const value = "first \"line\"\nsecond-line"
	configs := &broker.Cache[string]{Make: func(text string) (string, error) { return text, nil }}
	for said, want := range map[string]string{
		"nothing of it":                          "nothing of it",
		`a first "line" b`:                       "a [hidden] b",
		`{"pass": "first \"line\"\n"}`:           `{"pass": "[hidden]\n"}`,
		"second-line, second-line":               "[hidden], [hidden]",
		strings.Repeat("x", 506) + "second-line": strings.Repeat("x", 506) + "[hidden]…",
		strings.Repeat("x", 508) + "second-line": strings.Repeat("x", 508) + "[hidden]…",
		strings.Repeat("x", 500) + "second-line": strings.Repeat("x", 500) + "[hidden]",
	} {
		out := broker.Deliver(t.Context(), &job.Attempt{}, configs, func(ctx context.Context, _ string) job.Outcome {
			_, err := broker.ReadSecret(ctx, &broker.Options{Secrets: stored(value)}, uuid.Nil, secret.Text{Secret: "name"})
			require.NoError(t, err)
			return job.Outcome{Kind: job.Failed, Message: broker.Clean(said)}
		})
		require.Equal(t, want, out.Message)
	}
}

// Of several servers, one that may come back decides.
func TestKinder(t *testing.T) {
	t.Parallel()
	final, away := &broker.FinalError{Err: context.Canceled}, error(syscall.ECONNREFUSED)
	require.Equal(t, away, broker.Kinder(final, away))
	require.Equal(t, away, broker.Kinder(away, final))
	require.Equal(t, error(final), broker.Kinder(nil, final))
	require.Equal(t, away, broker.Kinder(away, nil))
	require.NoError(t, broker.Kinder(nil, nil))
}
