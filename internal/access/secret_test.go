package access_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

// TestSecretIsNeverPrinted in any of the usual ways.
func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	s := access.Secret{Values: []string{"canary-new", "canary-old"}}
	require.Equal(t, "canary-new", s.Value())
	require.Empty(t, access.Secret{}.Value())
	params := access.SecretParams{Name: "token", Value: s}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		fmt.Fprintf(&out, verb+verb+verb, s, &s, params)
	}
	text, err := json.Marshal(map[string]any{"value": s, "params": params})
	require.NoError(t, err)
	out.Write(text)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("test", "value", s, "params", params)
	slog.New(slog.NewTextHandler(&out, nil)).Info("test", "value", s, "params", params)
	require.NotContains(t, out.String(), "canary")
	require.Contains(t, out.String(), "[hidden]")
}

func TestSecretParamsValidate(t *testing.T) {
	t.Parallel()
	value := func(text string) access.Secret { return access.Secret{Values: []string{text}} }
	month := time.Duration(access.MaxKeepPrevious)
	for name, tc := range map[string]struct {
		params access.SecretParams
		want   []string
	}{
		"a secret": {access.SecretParams{Name: "api.token_1-a", Value: value("x")}, []string{}},
		"longest": {
			access.SecretParams{Name: "a", Value: value(strings.Repeat("x", access.MaxSecret))}, []string{},
		},
		"keeps previous": {access.SecretParams{Name: "a", Value: value("x"), KeepPrevious: month}, []string{}},
		"nothing set":    {access.SecretParams{}, []string{"name", "value"}},
		"no name":        {access.SecretParams{Name: "Token", Value: value("x")}, []string{"name"}},
		"too long": {
			access.SecretParams{Name: "a", Value: value(strings.Repeat("x", access.MaxSecret+1))}, []string{"value"},
		},
		"only the prefix of a signing secret": {
			access.SecretParams{Name: "a", Value: value(" whsec_\n")}, []string{"value"},
		},
		"keeps previous too long": {
			access.SecretParams{Name: "a", Value: value("x"), KeepPrevious: month + 1}, []string{"keep_previous_for"},
		},
		"keeps previous negative": {
			access.SecretParams{Name: "a", Value: value("x"), KeepPrevious: -1}, []string{"keep_previous_for"},
		},
	} {
		require.Equal(t, tc.want, fields(tc.params.Validate()), name)
	}
}

// TestSecretErrorsDoNotRepeatInput: a user may have put the value where the name belongs.
func TestSecretErrorsDoNotRepeatInput(t *testing.T) {
	t.Parallel()
	err := access.SecretParams{Name: "Canary!", Value: access.Secret{Values: []string{""}}}.Validate()
	require.Error(t, err)
	require.NotContains(t, err.Error(), "Canary")
}

// TestSecretBound: sealed values open only for the same namespace, name and version, so the bytes must not change.
func TestSecretBound(t *testing.T) {
	t.Parallel()
	require.Equal(t, "belfry secret 00000000-0000-7000-8000-000000000001 token 3",
		string(access.SecretBound(access.DefaultNamespace, "token", 3)))
	require.NotEqual(t, access.SecretBound(uuid.New(), "token", 3),
		access.SecretBound(access.DefaultNamespace, "token", 3))
}
