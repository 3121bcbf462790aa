package http

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/message"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// DefaultSigning is the name of the secret that signs all requests of a namespace, if it exists and the
// job does not override it. If it is bound, it signs requests to its hosts only.
const DefaultSigning = "webhook-signing"

// delivery is one attempt, ready to be sent.
type delivery struct {
	*compiled
	req       *http.Request
	transport *http.Transport
	hide      []string // secrets of this delivery, in addition to those of the config
}

// prepare builds the request of an attempt and reads the secrets that the config names. If it returns an
// outcome, nothing was sent.
func (t *Target) prepare(ctx context.Context, c *compiled, a *job.Attempt) (*delivery, *job.Outcome) {
	req, body := c.request(ctx, a)
	d := &delivery{compiled: c, req: req, transport: t.transport}
	if t.opts.Report != nil {
		url, token := t.opts.Report(*a)
		req.Header[runURL], req.Header[runToken] = []string{url}, []string{token}
		d.hide = append(d.hide, token)
	}
	if failed := t.fillURL(ctx, d, a); failed != nil {
		return nil, failed
	}
	for i := range c.stored {
		s := &c.stored[i]
		text, err := secret.Text{Secret: s.secret}.Read(ctx, t.opts.Secrets, a.Namespace, c.use)
		if err != nil {
			return nil, withoutSecret(s.secret, err)
		}
		value := s.value(text)
		if !validValue(value) {
			return nil, unusable(s.secret,
				"it has a line break or another control character, which a header cannot carry")
		}
		req.Header[s.header] = []string{value}
		d.hide = append(d.hide, text, value)
	}
	if failed := t.sign(ctx, d, a, body); failed != nil {
		return nil, failed
	}
	return d, t.connect(ctx, d, a.Namespace)
}

// connect chooses the transport of a delivery.
func (t *Target) connect(ctx context.Context, d *delivery, namespace uuid.UUID) *job.Outcome {
	opts, pem := t.opts, ""
	var err error
	if opts.Guard, err = t.opts.Guard.For(ctx, namespace); err != nil {
		return &job.Outcome{
			Kind: job.Failed, Retryable: true, Message: message.Clean("not sent: "+err.Error(), maxSnippet),
		}
	}
	if d.cert == "" && opts.Guard == t.opts.Guard {
		return nil
	}
	if d.cert != "" {
		if pem, err = (secret.Text{Secret: d.cert}).Read(ctx, t.opts.Secrets, namespace, d.use); err != nil {
			return withoutSecret(d.cert, err)
		}
	}
	if d.transport, err = t.own.get(opts, namespace, pem); err != nil {
		return unusable(d.cert, "it is not a certificate with its key, both as PEM")
	}
	return nil
}

// sign adds Standard Webhooks signatures to a request, one for each value of the secret. A receiver that
// still has the previous value can then verify the request during a rotation. Libraries of the standard also parse the
// body as JSON, so a request without a payload gets an empty object.
func (t *Target) sign(ctx context.Context, d *delivery, a *job.Attempt, body string) *job.Outcome {
	name := d.signing
	if d.unsigned || t.opts.Secrets == nil {
		return nil
	}
	if name == "" {
		name = DefaultSigning
	}
	found, err := t.opts.Secrets.Secret(ctx, a.Namespace, name, d.use)
	switch {
	case secret.Permanent(err) && d.signing == "":
		return nil // there is no default, or it is bound to other hosts
	case err != nil:
		return withoutSecret(name, err)
	}
	if body == "" && !d.hasBody {
		body = "{}"
		setBody(d.req, body)
	}
	id, now, signatures := job.FormatRunID(a.Key), t.opts.Now(), ""
	for i, value := range found.Values {
		hook, err := signer(value)
		if err != nil && i > 0 {
			continue // a previous value may be invalid: that may be why it was replaced
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
	h[webhookID], h[webhookSign] = []string{id}, []string{signatures}
	h[webhookTime] = []string{strconv.FormatInt(now.Unix(), 10)}
	return nil
}

// signer returns the signer for a secret: base64 after whsec_, as in the standard, or else the raw bytes.
// An empty key is an error, because anyone could sign with it.
func signer(value string) (*webhooks.Webhook, error) {
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

// withoutSecret is the outcome if a secret could not be read. It may be retried: a missing secret may be
// stored soon, and a database that is down recovers. A secret that may not be sent there fails permanently.
func withoutSecret(name string, err error) *job.Outcome {
	if refused, ok := errors.AsType[*access.NotAllowedError](err); ok {
		return &job.Outcome{Kind: job.Failed, Message: message.Clean("not sent: "+refused.Error(), maxSnippet)}
	}
	why := "could not be read just now; see the node's log"
	switch {
	case errors.Is(err, secret.ErrNone):
		why = "does not exist; store it: belfry secret set " + name
	case errors.Is(err, access.ErrNoKeyset):
		why = "cannot be read: " + err.Error()
	}
	return &job.Outcome{Kind: job.Failed, Retryable: true, Message: "not sent: the secret " + name + " " + why}
}

// unusable is the outcome if a secret exists but is invalid.
func unusable(name, why string) *job.Outcome {
	return &job.Outcome{
		Kind: job.Failed,
		Message: "not sent: the secret " + name + " cannot be used: " + why +
			"; store it again: belfry secret set " + name,
	}
}
