// Package webhook verifies that requests come from Belfry. It checks the Standard Webhooks signature that http
// targets with a secret send.
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
	// MaxBody is the maximum size of a request in bytes. A payload has at most 256 kB.
	MaxBody = 1 << 20
	// Tolerance is how far a request's time may differ from now. An older request may be a replay.
	Tolerance = 5 * time.Minute

	maxSignatures = 16
	prefix        = "whsec_"
)

// Reasons for which a request is rejected.
var (
	ErrHeaders = errors.New("webhook: one of the headers webhook-id, webhook-timestamp and webhook-signature " +
		"is missing")
	ErrTime      = errors.New("webhook: the request is too old, or from the future")
	ErrSignature = errors.New("webhook: the signature is wrong")
	ErrSecret    = errors.New("webhook: the receiver has no secret, or one with nothing or no base64 after whsec_")
)

// Check returns nil if one of the secrets has signed the request, and otherwise what is wrong. Pass several
// secrets during a rotation. Write a secret as it is stored in Belfry: after whsec_ it is base64, without that
// prefix it is used unchanged. A secret that is only whsec_ is ErrSecret, because anyone could sign with an
// empty key.
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

// Verify passes on requests that one of the secrets has signed, and responds to others with 401. A request
// that is larger than MaxBody gets 413. If the receiver's own secret is missing or invalid, it responds with
// 500, so that runs are retried until that is fixed.
func Verify(next http.Handler, secrets ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
		if err != nil {
			http.Error(w, "the body cannot be read, or is too large", http.StatusRequestEntityTooLarge)
			return
		}
		now := time.Now() //nolint:forbidigo // compares the sender's clock with this one
		if err := Check(r.Header, body, now, secrets...); err != nil {
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
