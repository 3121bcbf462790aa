package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
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
		"right":          {headers(id, at, signature), body, now, []string{secret}, nil},
		"one of several": {headers(id, at, "v1,AAAA v1a,BBBB "+signature), body, now, []string{secret}, nil},
		"rotated":        {headers(id, at, signature), body, now, []string{other, secret}, nil},
		"a bit late":     {headers(id, at, signature), body, now.Add(4 * time.Minute), []string{secret}, nil},
		"replayed": {
			headers(id, at, signature), body, now.Add(6 * time.Minute), []string{secret}, webhook.ErrTime,
		},
		"from the future": {
			headers(id, at, signature), body, now.Add(-6 * time.Minute), []string{secret}, webhook.ErrTime,
		},
		"another body":   {headers(id, at, signature), body + " ", now, []string{secret}, webhook.ErrSignature},
		"another id":     {headers("msg_x", at, signature), body, now, []string{secret}, webhook.ErrSignature},
		"another time":   {headers(id, "1614265331", signature), body, now, []string{secret}, webhook.ErrSignature},
		"another secret": {headers(id, at, signature), body, now, []string{other}, webhook.ErrSignature},
		"of another version": {
			headers(id, at, strings.Replace(signature, "v1,", "v2,", 1)), body, now,
			[]string{secret},
			webhook.ErrSignature,
		},
		"no signature": {headers(id, at, ""), body, now, []string{secret}, webhook.ErrHeaders},
		"no time":      {headers(id, "now", signature), body, now, []string{secret}, webhook.ErrTime},
		"no secret":    {headers(id, at, signature), body, now, []string{""}, webhook.ErrSecret},
		"not base64":   {headers(id, at, signature), body, now, []string{"whsec_!"}, webhook.ErrSecret},
		"only a prefix": {
			headers(id, at, sign("whsec_", id, at, body)), body, now, []string{"whsec_"}, webhook.ErrSecret,
		},
		"an empty key": {
			headers(id, at, sign("", id, at, body)), body, now, []string{"whsec_\n"}, webhook.ErrSecret,
		},
		"as it is": {headers(id, at, sign("plain", id, at, body)), body, now, []string{"plain"}, nil},
		"as it is, another": {
			headers(id, at, sign("plain", id, at, body)), body, now, []string{"plain2"}, webhook.ErrSignature,
		},
		"no secrets": {headers(id, at, signature), body, now, nil, webhook.ErrSecret},
	} {
		if err := webhook.Check(c.header, []byte(c.body), c.now, c.secrets...); !errors.Is(err, c.want) ||
			(c.want == nil) != (err == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// sign returns the standard's signature with a key.
func sign(key, id, at, body string) string {
	m := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(m, id+"."+at+"."+body)
	return "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
}

func TestVerify(t *testing.T) {
	t.Parallel()
	got := ""
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = string(all)
		w.WriteHeader(http.StatusNoContent)
	})
	now := strconv.FormatInt(time.Now().Unix(), 10) //nolint:forbidigo // Verify's own clock
	for name, c := range map[string]struct {
		at, body, secret string
		want             int
	}{
		"right":     {now, body, "plain", http.StatusNoContent},
		"long past": {at, body, "plain", http.StatusUnauthorized},
		"wrong":     {now, body, "other", http.StatusUnauthorized},
		"too large": {now, strings.Repeat("x", webhook.MaxBody+1), "plain", http.StatusRequestEntityTooLarge},
		"no secret": {now, body, "", http.StatusInternalServerError},
	} {
		got = ""
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body))
		r.Header = headers(id, c.at, sign("plain", id, c.at, c.body))
		webhook.Verify(next, c.secret).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d", name, w.Code, c.want)
		}
		if passed := c.want == http.StatusNoContent; passed && got != c.body || !passed && got != "" {
			t.Errorf("%s: the handler got %q", name, got)
		}
	}
}
