package command_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/command"
	"github.com/belfry-dev/belfry/internal/target/command/runner"
)

type noDatabase struct{}

func (noDatabase) Secret(context.Context, uuid.UUID, string, access.SecretUse) (access.Secret, error) {
	return access.Secret{}, errors.New("failed to connect to `user=canary database=belfry`: 10.0.0.1:5432 (db.internal)")
}

// TestDatabaseErrorsAreNotShown: viewers read the messages of runs, and errors of the database name its user and host.
func TestDatabaseErrorsAreNotShown(t *testing.T) {
	t.Parallel()
	name := func(context.Context, uuid.UUID) (string, error) {
		_, err := noDatabase{}.Secret(t.Context(), uuid.Nil, "", access.SecretUse{})
		return "", err
	}
	target := command.New(command.Options{
		Slots: 1, Secrets: noDatabase{}, Namespace: name, Settings: runner.Settings{Programs: []string{"billing=/bin/true"}},
	})
	for config, want := range map[string]string{
		`{"program": "/bin/true", "env": {"A": {"secret": "a"}}}`: "env.A: a secret could not be read just now",
		`{"program": "/bin/true", "stdin": {"secret": "a"}}`:      "stdin: a secret could not be read just now",
		`{"program": "/bin/true"}`:                                "the name of the namespace could not be read",
	} {
		out := target.Deliver(t.Context(), job.Attempt{Config: config})
		require.True(t, out.Retryable)
		require.Contains(t, out.Message, "not run: "+want)
		require.NotContains(t, out.Message, "canary")
	}
}
