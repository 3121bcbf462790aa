package broker_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

type stored string

func (s stored) Secret(context.Context, uuid.UUID, string) (access.Secret, error) {
	return access.Secret{Values: []string{string(s)}}, nil
}

// No form of a secret that was read is in what a broker said, even where that is cut.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	const value = "first \"line\"\nsecond-line"
	configs := &broker.Cache[string]{Make: func(text string) (string, error) { return text, nil }}
	for said, want := range map[string]string{
		"nothing of it":                          "nothing of it",
		`a first "line" b`:                       "a [hidden] b",
		`{"pass": "first \"line\"\n"}`:           `{"pass": "[hidden]\n"}`,
		"second-line, second-line":               "[hidden], [hidden]",
		strings.Repeat("x", 506) + "second-line": strings.Repeat("x", 506) + "[hi…",
		strings.Repeat("x", 508) + "second-line": strings.Repeat("x", 508) + "[…",
		strings.Repeat("x", 500) + "second-line": strings.Repeat("x", 500) + "[hidden]",
		"it was cut there, within first \"l…":    "it was cut there, within [hidden]…",
	} {
		out := broker.Deliver(t.Context(), &job.Attempt{}, configs, func(ctx context.Context, _ string) job.Outcome {
			_, err := broker.ReadSecret(ctx, &broker.Options{Secrets: stored(value)}, uuid.Nil, secret.Text{Secret: "name"})
			require.NoError(t, err)
			return job.Outcome{Kind: job.Failed, Message: broker.Clean(broker.Said(ctx, said))}
		})
		require.Equal(t, want, out.Message)
	}
}

// Our own words stay as they are: by what is missing in them, a secret that is one of
// them would be told.
func TestOwnWordsStay(t *testing.T) {
	t.Parallel()
	const own = "the broker does not take these credentials; mend user and password"
	configs := &broker.Cache[string]{Make: func(text string) (string, error) { return text, nil }}
	for want, answer := range map[string]func(context.Context) job.Outcome{
		"password.test: " + own: func(ctx context.Context) job.Outcome {
			return broker.Unconnected(ctx, "password.test", &broker.FinalError{Err: errors.New(own)})
		},
		"password.test could not be connected to (" + own + ")": func(ctx context.Context) job.Outcome {
			return broker.Unconnected(ctx, "password.test", fmt.Errorf("dial: %w", broker.OwnError(own)))
		},
		"password.test could not be connected to (no [hidden] of yours)": func(ctx context.Context) job.Outcome {
			return broker.Unconnected(ctx, "password.test", errors.New("no password of yours"))
		},
		"password.test broke off before it confirmed the message, and may have it (" + own + ")": func(ctx context.Context) job.Outcome {
			return broker.Unconfirmed(ctx, "password.test", broker.OwnError(own))
		},
		"password.test broke off before it confirmed the message, and may have it ([hidden])": func(ctx context.Context) job.Outcome {
			return broker.Unconfirmed(ctx, "password.test", errors.New("password"))
		},
		"password.test has a TLS certificate that is not trusted (x509: [hidden]); replace it there": func(ctx context.Context) job.Outcome {
			return broker.Unconnected(ctx, "password.test", &tls.CertificateVerificationError{Err: errors.New("x509: password")})
		},
	} {
		out := broker.Deliver(t.Context(), &job.Attempt{}, configs, func(ctx context.Context, _ string) job.Outcome {
			_, err := broker.ReadSecret(ctx, &broker.Options{Secrets: stored("password")}, uuid.Nil, secret.Text{Secret: "name"})
			require.NoError(t, err)
			return answer(ctx)
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
