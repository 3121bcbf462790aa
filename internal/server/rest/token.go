package rest

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"github.com/belfry-dev/belfry/internal/server/body"
)

// A page token is the mark where a page ended, encrypted, so that clients cannot depend on its content. All nodes have
// the same keys, so a token works on every node and after a restart. The state of a login is encrypted in the same way.
// Their keys are derived from the cluster's keys for run tokens: the one that signs run tokens encrypts, and those that
// are accepted decrypt.

func newTokenCipher(clusterKey []byte) cipher.AEAD {
	key := hmac.New(sha256.New, clusterKey)
	key.Write([]byte("page tokens"))
	block, err := aes.NewCipher(key.Sum(nil))
	if err != nil {
		panic(err) //nolint:forbidigo // cannot happen: the key has 32 bytes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) //nolint:forbidigo // cannot happen: AES has blocks of 16 bytes
	}
	return aead
}

// Seal encrypts a value for a purpose, so that a client can keep it and cannot read or change it.
func (a *API) Seal(purpose string, value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	aead := newTokenCipher(a.opts.ReportKeys.Keys().First())
	sealed := aead.Seal(nil, nil, text, []byte(purpose)) //nolint:gosec // this cipher generates a random nonce itself
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Unseal reads what Seal wrote for the same purpose, on any node. It reports false for everything else.
func (a *API) Unseal(purpose, sealed string, value any) bool {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return false
	}
	for _, key := range a.opts.ReportKeys.Keys() {
		if text, err := newTokenCipher(key).Open(nil, nil, raw, []byte(purpose)); err == nil {
			return body.Unmarshal(text, value) == nil
		}
	}
	return false
}

// tokenScope returns the API that handles the request, and what a token is bound to: the list and the namespace.
func tokenScope(ctx context.Context) (a *API, purpose string) {
	namespace := Principal(ctx).Namespace
	a, _ = ctx.Value(apiKey{}).(*API)
	return a, recordOf(ctx).operation + "\n" + string(namespace[:])
}

// Token returns a mark as a page token.
func Token(ctx context.Context, mark any) string {
	a, purpose := tokenScope(ctx)
	token, err := a.Seal(purpose, mark)
	if err != nil {
		return "" // cannot happen: marks are plain values
	}
	return token
}

// ParseToken reads a page token into a mark. An empty token leaves the mark as it is. A token of another list or
// namespace, or one that Token did not make, is rejected.
func ParseToken(ctx context.Context, token string, mark any) error {
	if token == "" {
		return nil
	}
	if a, purpose := tokenScope(ctx); !a.Unseal(purpose, token, mark) {
		return BadToken()
	}
	return nil
}

// BadToken returns the problem of a page token that is not from this list.
func BadToken() *Problem {
	p := NewProblem("bad_request", "page_token is not a token of this list; "+
		"send next_page_token of the last page with the same filters, or leave it out to start from the beginning")
	p.Problems = []FieldProblem{{
		Field: "page_token", Problem: "it is not a token of this list",
		Fix: "send next_page_token of the last page with the same filters, or leave it out",
	}}
	return p
}
