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
	"github.com/belfry-dev/belfry/internal/target/settings"
)

type stored string

func (s stored) Secret(context.Context, uuid.UUID, string, access.SecretUse) (access.Secret, error) {
	return access.Secret{Values: []string{string(s)}}, nil
}

// Secrets that a delivery read are redacted from what a broker says, even where the text is cut off.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	const value = "first \"line\"\nsecond-line"
	configs := &settings.Cache[string]{Parse: func(text string) (string, error) { return text, nil }}
	for said, want := range map[string]string{
		"nothing of it":                          "nothing of it",
		`a first "line" b`:                       "a [hidden] b",
		`{"pass": "first \"line\"\n"}`:           `{"pass": "[hidden]\n"}`,
		"second-line, second-line":               "[hidden], [hidden]",
		strings.Repeat("x", 506) + "second-line": strings.Repeat("x", 506) + "[hi…",
		strings.Repeat("x", 508) + "second-line": strings.Repeat("x", 508) + "[…",
		strings.Repeat("x", 500) + "second-line": strings.Repeat("x", 500) + "[hidden]",
		"it was cut there, within second-l…":     "it was cut there, within [hidden]…",
		"it was cut there, within another-l…":    "it was cut there, within [hidden]…",
	} {
		out := broker.Deliver(t.Context(), &job.Attempt{}, configs, func(ctx context.Context, _ string) job.Outcome {
			_, err := new(broker.Config).ReadSecret(ctx, &broker.Options{Secrets: stored(value)}, uuid.Nil,
				secret.Text{Secret: "name"})
			require.NoError(t, err)
			return job.Outcome{Kind: job.Failed, Message: broker.Clean(broker.Redact(ctx, said))}
		})
		require.Equal(t, want, out.Message)
	}
}

// Belfry's own words are not redacted: a secret that is one of the words would be revealed by its absence.
func TestOwnWordsStay(t *testing.T) {
	t.Parallel()
	const own = "the broker does not take these credentials; fix user and password"
	configs := &settings.Cache[string]{Parse: func(text string) (string, error) { return text, nil }}
	untrusted := &tls.CertificateVerificationError{Err: errors.New("x509: password")}
	for _, c := range []struct {
		outcome func(ctx context.Context, where string, err error) job.Outcome
		err     error
		want    string
	}{
		{broker.Unconnected, &broker.FinalError{Err: errors.New(own)}, ": " + own},
		{broker.Unconnected, fmt.Errorf("dial: %w", broker.OwnError(own)), " could not be connected to (" + own + ")"},
		{broker.Unconnected, errors.New("no password of yours"), " could not be connected to (no [hidden] of yours)"},
		{
			broker.Unconfirmed, broker.OwnError(own),
			" broke off before it confirmed the message, and may have it (" + own + ")",
		},
		{
			broker.Unconfirmed, errors.New("password"),
			" broke off before it confirmed the message, and may have it ([hidden])",
		},
		{
			broker.Unconnected, untrusted,
			" has a TLS certificate that is not trusted (x509: [hidden]); replace it there",
		},
	} {
		out := broker.Deliver(t.Context(), &job.Attempt{}, configs, func(ctx context.Context, _ string) job.Outcome {
			_, err := new(broker.Config).ReadSecret(ctx, &broker.Options{Secrets: stored("password")}, uuid.Nil,
				secret.Text{Secret: "name"})
			require.NoError(t, err)
			return c.outcome(ctx, "password.test", c.err)
		})
		require.Equal(t, "password.test"+c.want, out.Message)
	}
}

// Of several servers, one that may recover decides the outcome.
func TestPreferRetryable(t *testing.T) {
	t.Parallel()
	final, down := &broker.FinalError{Err: context.Canceled}, error(syscall.ECONNREFUSED)
	require.Equal(t, down, broker.PreferRetryable(final, down))
	require.Equal(t, down, broker.PreferRetryable(down, final))
	require.Equal(t, error(final), broker.PreferRetryable(nil, final))
	require.Equal(t, down, broker.PreferRetryable(down, nil))
	require.NoError(t, broker.PreferRetryable(nil, nil))
}
