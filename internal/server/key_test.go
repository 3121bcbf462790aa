package server_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAKeyWithoutTimeIsRefused: a life of nothing is not the same as none, which is a key that does not expire.
func TestAKeyWithoutTimeIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, life := range []string{"0s", "0d", "-0s", "-1h", "1ns", "", "36500d"} {
		a := b.call("POST", "/keys", fmt.Sprintf(`{"name":"k","role":"viewer","expires_in":%q}`, life))
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%q: %s", life, a.body)
		require.Contains(t, string(a.body), `"field":"expires_in"`)
		require.Contains(t, string(a.body), "write for example 90d")
	}
	a := b.call("POST", "/keys", `{"name":"k","role":"viewer","expires_in":"1ms"}`)
	require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
	require.NotNil(t, a.json(t)["expires_at"])
}
