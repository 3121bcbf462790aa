package webhook_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/belfry-dev/belfry/sdk/go/webhook"
)

// The example of the Standard Webhooks specification.
const (
	secret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	id        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	at        = "1614265330"
	body      = `{"test": 2432232314}`
	signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func headers(id, at, signature string) http.Header {
	h := http.Header{}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", at)
	h.Set("webhook-signature", signature)
	return h
}

func TestCheck(t *testing.T) {
	t.Parallel()
	now := time.Unix(1614265330, 0)
	other := "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for name, c := range map[string]struct {
		header  http.Header
		body    string
		now     time.Time
		secrets []string
		want    error
	}{
		"right":              {headers(id, at, signature), body, now, []string{secret}, nil},
		"one of several":     {headers(id, at, "v1,AAAA v1a,BBBB "+signature), body, now, []string{secret}, nil},
		"rotated":            {headers(id, at, signature), body, now, []string{other, secret}, nil},
		"a bit late":         {headers(id, at, signature), body, now.Add(4 * time.Minute), []string{secret}, nil},
		"replayed":           {headers(id, at, signature), body, now.Add(6 * time.Minute), []string{secret}, webhook.ErrTime},
		"from the future":    {headers(id, at, signature), body, now.Add(-6 * time.Minute), []string{secret}, webhook.ErrTime},
		"another body":       {headers(id, at, signature), body + " ", now, []string{secret}, webhook.ErrSignature},
		"another id":         {headers("msg_x", at, signature), body, now, []string{secret}, webhook.ErrSignature},
		"another time":       {headers(id, "1614265331", signature), body, now, []string{secret}, webhook.ErrSignature},
		"another secret":     {headers(id, at, signature), body, now, []string{other}, webhook.ErrSignature},
		"of another version": {headers(id, at, strings.Replace(signature, "v1,", "v2,", 1)), body, now, []string{secret}, webhook.ErrSignature},
		"no signature":       {headers(id, at, ""), body, now, []string{secret}, webhook.ErrHeaders},
		"no time":            {headers(id, "now", signature), body, now, []string{secret}, webhook.ErrTime},
		"no secret":          {headers(id, at, signature), body, now, []string{""}, webhook.ErrSecret},
		"no secrets":         {headers(id, at, signature), body, now, nil, webhook.ErrSecret},
	} {
		if err := webhook.Check(c.header, []byte(c.body), c.now, c.secrets...); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	called := false
	h := webhook.Verify(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called = true
		_, _ = io.ReadAll(r.Body)
	}), secret)
	for path, want := range map[string]int{body: http.StatusUnauthorized, strings.Repeat("x", webhook.MaxBody+1): http.StatusRequestEntityTooLarge} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(path))
		r.Header = headers(id, at, signature) // long past
		h.ServeHTTP(w, r)
		if w.Code != want || called {
			t.Errorf("%d, want %d", w.Code, want)
		}
	}
}
