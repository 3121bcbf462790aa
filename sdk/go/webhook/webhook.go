// Package webhook checks that requests come from Belfry: the signature that http
// targets with a secret send, as Standard Webhooks defines it.
//
//	http.Handle("/hooks", webhook.Verify(handler, os.Getenv("WEBHOOK_SECRET")))
package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxBody is how large a request may be: a payload has at most 256 kB.
	MaxBody = 1 << 20
	// Tolerance is how far a request's time may lie from now: older ones may have
	// been recorded and sent again.
	Tolerance = 5 * time.Minute

	maxSignatures = 16
	prefix        = "whsec_"
)

// The reasons for which a request is refused.
var (
	ErrHeaders   = errors.New("webhook: the headers webhook-id, webhook-timestamp and webhook-signature are not all there")
	ErrTime      = errors.New("webhook: the request is too old, or from the future")
	ErrSignature = errors.New("webhook: the signature is not right")
	ErrSecret    = errors.New("webhook: the receiver has no secret, or one with nothing or no base64 after whsec_")
)

// Check says what is wrong with a request; nil: one of the secrets has signed it.
// Several secrets are for a rotation. A secret is written as it is stored in Belfry:
// what begins with whsec_ is base64 after it, any other is used as it is. whsec_ alone
// is ErrSecret: something was not set, and anybody could sign with it.
func Check(header http.Header, body []byte, now time.Time, secrets ...string) error {
	id, at, signatures := header.Get("webhook-id"), header.Get("webhook-timestamp"), header.Get("webhook-signature")
	if id == "" || at == "" || signatures == "" {
		return ErrHeaders
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > Tolerance {
		return ErrTime
	}
	if len(secrets) == 0 {
		return ErrSecret
	}
	given := strings.Fields(signatures)
	given = given[:min(len(given), maxSignatures)]
	for _, secret := range secrets {
		key, err := []byte(secret), error(nil)
		if text, ok := strings.CutPrefix(secret, prefix); ok {
			key, err = base64.StdEncoding.DecodeString(text)
		}
		if err != nil || len(key) == 0 {
			return ErrSecret
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + at + "."))
		mac.Write(body)
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		for _, s := range given {
			if hmac.Equal([]byte(s), []byte(want)) {
				return nil
			}
		}
	}
	return ErrSignature
}

// Verify lets requests through that one of the secrets has signed, and answers
// others with 401. What is larger than MaxBody is answered with 413. A receiver
// whose own secret is missing or broken answers 500, so that runs are tried again
// until it is mended.
func Verify(next http.Handler, secrets ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
		if err != nil {
			http.Error(w, "the body cannot be read, or is too large", http.StatusRequestEntityTooLarge)
			return
		}
		if err := Check(r.Header, body, time.Now(), secrets...); err != nil { //nolint:forbidigo // the sender's clock against this one
			status := http.StatusUnauthorized
			if errors.Is(err, ErrSecret) {
				status = http.StatusInternalServerError
			}
			http.Error(w, err.Error(), status)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
