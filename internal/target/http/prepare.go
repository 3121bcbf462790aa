package http

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// DefaultSigning is the name of the secret that all requests of a namespace are
// signed with, if it is there and their job does not say otherwise.
const DefaultSigning = "webhook-signing"

// delivery is one attempt, made ready.
type delivery struct {
	*compiled
	req  *http.Request
	via  *http.Transport
	hide []string // what is secret in this one, beside what is in the config
}

// prepare makes a delivery ready: it reads the secrets that the config names.
// What cannot be made ready was not sent.
func (t *Target) prepare(ctx context.Context, c *compiled, a *job.Attempt) (*delivery, *job.Outcome) {
	req, body := c.request(ctx, a)
	d := &delivery{compiled: c, req: req, via: t.transport}
	if t.opts.Report != nil {
		url, token := t.opts.Report(*a)
		req.Header[runURL], req.Header[runToken] = []string{url}, []string{token}
		d.hide = append(d.hide, token)
	}
	for i := range c.stored {
		s := &c.stored[i]
		text, err := secret.Text{Secret: s.secret}.Read(ctx, t.opts.Secrets, a.Namespace)
		if err != nil {
			return nil, withoutSecret(s.secret, err)
		}
		value := s.value(text)
		if !validValue(value) {
			return nil, unusable(s.secret, "it has a line break or another control character, which a header cannot carry")
		}
		req.Header[s.header] = []string{value}
		d.hide = append(d.hide, text, value)
	}
	if failed := t.sign(ctx, d, a, body); failed != nil {
		return nil, failed
	}
	if c.cert == "" {
		return d, nil
	}
	pem, err := secret.Text{Secret: c.cert}.Read(ctx, t.opts.Secrets, a.Namespace)
	if err != nil {
		return nil, withoutSecret(c.cert, err)
	}
	if d.via, err = t.personal.get(t.opts, a.Namespace, pem); err != nil {
		return nil, unusable(c.cert, "it is not a certificate with its key, both as PEM")
	}
	return d, nil
}

// sign puts Standard Webhooks signatures on a request: one by each value of the
// secret, so that a receiver which has only the one before still knows us.
func (t *Target) sign(ctx context.Context, d *delivery, a *job.Attempt, body string) *job.Outcome {
	name := d.signing
	if d.unsigned || t.opts.Secrets == nil {
		return nil
	}
	if name == "" {
		name = DefaultSigning
	}
	found, err := t.opts.Secrets.Secret(ctx, a.Namespace, name)
	switch {
	case errors.Is(err, secret.ErrNone) && d.signing == "":
		return nil
	case err != nil:
		return withoutSecret(name, err)
	}
	id, now, signatures := job.FormatRunID(a.Key), t.opts.Now(), ""
	for i, value := range found.Values {
		hook, err := webhook(value)
		if err != nil && i > 0 {
			continue // the one before was wrong, and has been replaced for that
		}
		if err != nil {
			return unusable(name, "after whsec_ there is nothing, or it is not base64")
		}
		signature, err := hook.Sign(id, now, []byte(body))
		if err != nil {
			return unusable(name, "nothing can be signed with it")
		}
		if signatures != "" {
			signatures += " "
		}
		signatures += signature
	}
	h := d.req.Header
	h[webhookID], h[webhookTime], h[webhookSign] = []string{id}, []string{strconv.FormatInt(now.Unix(), 10)}, []string{signatures}
	return nil
}

// webhook is the signer of a secret: base64 after whsec_, as the standard writes
// it, or else the bytes as they are. whsec_ alone is none: anybody could sign with it.
func webhook(value string) (*webhooks.Webhook, error) {
	key := []byte(value)
	if text, ok := strings.CutPrefix(value, access.SigningPrefix); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, err
		}
	}
	if len(key) == 0 {
		return nil, errors.New("an empty key")
	}
	return webhooks.NewWebhookRaw(key)
}

// withoutSecret: it may be stored a moment later, and a database that is away
// comes back, so it may be tried again.
func withoutSecret(name string, err error) *job.Outcome {
	why := "could not be read just now; see the node's log"
	switch {
	case errors.Is(err, secret.ErrNone):
		why = "is not there; store it: belfry secret set " + name
	case errors.Is(err, access.ErrNoKeyset):
		why = "cannot be read: " + err.Error()
	}
	return &job.Outcome{Kind: job.Failed, Retryable: true, Message: "not sent: the secret " + name + " " + why}
}

// unusable: the secret is there, and wrong.
func unusable(name, why string) *job.Outcome {
	return &job.Outcome{Kind: job.Failed, Message: "not sent: the secret " + name + " cannot be used: " + why + "; store it anew: belfry secret set " + name}
}
