package rest

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// goneWriter is a response to a client that has disconnected.
type goneWriter struct{ http.ResponseWriter }

func (goneWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestAClientThatIsGoneIsNoBug: huma panics with the error if it cannot write a response.
func TestAClientThatIsGoneIsNoBug(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &API{opts: Options{Log: slog.New(slog.NewTextHandler(&out, nil))}}
	serve := func(w http.ResponseWriter) {
		a.observe(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, err := w.Write([]byte("x")); err != nil {
				panic(err) //nolint:forbidigo // as huma does
			}
			panic("a bug") //nolint:forbidigo // what the test is about
		})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	}
	serve(goneWriter{httptest.NewRecorder()})
	require.NotContains(t, out.String(), "panicked")
	serve(httptest.NewRecorder())
	require.Contains(t, out.String(), "a bug")
}
