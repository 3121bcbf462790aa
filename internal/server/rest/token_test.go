package rest

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

func codeOfError(t *testing.T, err error) string {
	t.Helper()
	p, ok := errors.AsType[*Problem](err)
	require.True(t, ok, "%v", err)
	return p.Code
}

// TestPageTokensAreOpaque: a token works on every node that has the cluster's key, hides its content, and is rejected
// by another list, in another namespace, and if it was changed.
func TestPageTokensAreOpaque(t *testing.T) {
	t.Parallel()
	namespace := uuid.New()
	request := func(keys, operation string, namespace uuid.UUID) context.Context {
		var all access.ReportKeys
		for key := range strings.FieldsSeq(keys) {
			all = append(all, []byte(key))
		}
		ctx := context.WithValue(t.Context(), apiKey{}, New(Options{ReportKeys: all}))
		ctx = context.WithValue(ctx, recordKey{}, &record{operation: operation})
		return context.WithValue(ctx, principalKey{}, access.Principal{Namespace: namespace})
	}
	type mark struct{ Partition int }
	token := Token(request("key", "list-jobs", namespace), mark{7})
	var got mark
	require.NoError(t, ParseToken(request("key", "list-jobs", namespace), token, &got))
	require.Equal(t, mark{7}, got)

	// In a rotation of the cluster's key, nodes that sign with the old one and with the new one know both.
	for from, to := range map[string]string{"key": "new key", "new key": "key new", "key new": "new key"} {
		token := Token(request(from, "list-jobs", namespace), mark{7})
		require.NoError(t, ParseToken(request(to, "list-jobs", namespace), token, &got))
	}
	ended := Token(request("new key", "list-jobs", namespace), mark{7})
	require.Error(t, ParseToken(request("key", "list-jobs", namespace), ended, &got))

	plain, err := base64.RawURLEncoding.DecodeString(token)
	require.NoError(t, err)
	require.NotContains(t, string(plain), "Partition")
	for name, ctx := range map[string]context.Context{
		"another list":      request("key", "list-runs", namespace),
		"another namespace": request("key", "list-jobs", uuid.New()),
		"another cluster":   request("other", "list-jobs", namespace),
	} {
		require.Equal(t, "bad_request", codeOfError(t, ParseToken(ctx, token, &got)), name)
	}
	made := base64.RawURLEncoding.EncodeToString([]byte(`{"Partition":9}`))
	for _, forged := range []string{made, token[1:], strings.ToUpper(token), "x", "%"} {
		err := ParseToken(request("key", "list-jobs", namespace), forged, &got)
		require.Equal(t, "bad_request", codeOfError(t, err), forged)
	}
}
