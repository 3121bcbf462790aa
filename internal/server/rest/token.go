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
// the same key, so a token works on every node and after a restart. The state of a login is encrypted in the same way.

// newTokenCipher returns the cipher of page tokens. Its key is derived from the cluster's key for run tokens.
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

// tokenScope returns the cipher of the API that handles the request, and what a token is bound to: the list and the
// namespace.
func tokenScope(ctx context.Context) (cipher.AEAD, []byte) {
	namespace := Principal(ctx).Namespace
	a, _ := ctx.Value(apiKey{}).(*API)
	return a.tokens, append([]byte(recordOf(ctx).operation+"\n"), namespace[:]...)
}

// Token returns a mark as a page token.
func Token(ctx context.Context, mark any) string {
	text, err := json.Marshal(mark)
	if err != nil {
		return "" // cannot happen: marks are plain values
	}
	aead, scope := tokenScope(ctx)
	sealed := aead.Seal(nil, nil, text, scope) //nolint:gosec // this cipher generates a random nonce itself
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// ParseToken reads a page token into a mark. An empty token leaves the mark as it is. A token of another list or
// namespace, or one that Token did not make, is rejected.
func ParseToken(ctx context.Context, token string, mark any) error {
	if token == "" {
		return nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return BadToken()
	}
	aead, scope := tokenScope(ctx)
	text, err := aead.Open(nil, nil, sealed, scope)
	if err != nil || body.Unmarshal(text, mark) != nil {
		return BadToken()
	}
	return nil
}

// Seal encrypts a value for a purpose, so that a client can keep it and cannot read or change it.
func (a *API) Seal(purpose string, value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	sealed := a.tokens.Seal(nil, nil, text, []byte(purpose)) //nolint:gosec // this cipher generates a random nonce itself
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Unseal reads what Seal wrote for the same purpose, on any node. It reports false for everything else.
func (a *API) Unseal(purpose, sealed string, value any) bool {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return false
	}
	text, err := a.tokens.Open(nil, nil, raw, []byte(purpose))
	return err == nil && body.Unmarshal(text, value) == nil
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
