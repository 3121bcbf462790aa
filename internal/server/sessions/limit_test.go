package sessions_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

// guesses are requests with secrets that do not exist.
var guesses = map[string]func(random [32]byte) *http.Request{
	"keys": func(random [32]byte) *http.Request {
		return request("POST", "/session", `{"key":"`+access.FormatKey(random)+`"}`)
	},
	"cookies": func(random [32]byte) *http.Request {
		return request("GET", "/self", "", "Cookie", "belfry="+access.FormatLogin(random))
	},
	"codes": func(random [32]byte) *http.Request {
		return request("POST", "/session", fmt.Sprintf(`{"code":"%x"}`, random[:8]))
	},
}

// TestGuessesAreLimited: logins and cookies count against the limit of unknown keys. Behind a proxy all clients share
// one address, so sessions that exist are accepted meanwhile, even if the node has never seen them.
func TestGuessesAreLimited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.node()
	var browsers [access.MaxLogins][]string
	for i := range browsers {
		browsers[i] = b.logIn(first, b.text)
	}
	for name, guess := range guesses {
		node := b.node()
		stop := make(chan struct{})
		var flood sync.WaitGroup
		var sent atomic.Uint64
		try := func() answer {
			var random [32]byte
			binary.BigEndian.PutUint64(random[:], sent.Add(1))
			return send(node, guess(random))
		}
		for range 4 {
			flood.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						try()
					}
				}
			})
		}
		require.Eventually(t, func() bool {
			got := try()
			return got.status == http.StatusTooManyRequests && got.header.Get("Retry-After") == "1"
		}, time.Minute, time.Millisecond, name)
		for _, browser := range browsers {
			got := send(node, request("GET", "/session", "", browser...))
			require.Equal(t, http.StatusOK, got.status, "during a flood of %s: %s", name, got.body)
		}
		close(stop)
		flood.Wait()
	}
}
