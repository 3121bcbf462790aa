package http

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

// Names of the headers that Belfry sends. The first has an unusual spelling so that net/http does not
// repeat requests by itself: see the package page.
const (
	idempotencyKey = "idempotency-key"
	runID          = "Belfry-Run-Id"
	jobID          = "Belfry-Job-Id"
	dueAt          = "Belfry-Due-At"
	attempt        = "Belfry-Attempt"
	traceparent    = "Traceparent"
	runURL         = "Belfry-Run-Url"
	runToken       = "Belfry-Run-Token" //nolint:gosec // a name
	webhookID      = "Webhook-Id"
	webhookTime    = "Webhook-Timestamp"
	webhookSign    = "Webhook-Signature"
)

// dueLayout is RFC 3339 with all six digits, so that strings sort like times.
const dueLayout = "2006-01-02T15:04:05.000000Z07:00"

// Values that all requests share. net/http only reads them.
var (
	userAgent = []string{"Belfry/1"}
	jsonType  = []string{"application/json"}
)

// Why a config cannot set a header.
const (
	ofConnection = "it belongs to the connection, not to the request"
	ofBelfry     = "Belfry sets it itself"
)

var reserved = map[string]string{
	"Connection": ofConnection, "Keep-Alive": ofConnection, "Proxy-Connection": ofConnection, "Te": ofConnection,
	"Trailer": ofConnection, "Transfer-Encoding": ofConnection, "Upgrade": ofConnection, "Expect": ofConnection,
	"Proxy-Authenticate": ofConnection, "Proxy-Authorization": ofConnection, "Http2-Settings": ofConnection,
	"Host": "it comes from the url", "Content-Length": "it comes from the body",
	"Idempotency-Key": ofBelfry,
	"Webhook-Id":      ofBelfry, "Webhook-Timestamp": ofBelfry, "Webhook-Signature": ofBelfry,
	"Traceparent": ofBelfry, "Tracestate": ofBelfry,
}

func (r *reader) headers(c *config, raw json.RawMessage) {
	var headers map[string]secret.Text
	if json.Unmarshal(raw, &headers) != nil {
		r.Add("headers", "it is not an object of strings and secrets",
			`write for example {"X-Tenant": "a", "X-Api-Key": {"secret": "NAME"}}`)
		return
	}
	if len(headers) > maxHeaders {
		r.Add("headers", fmt.Sprintf("%d headers; at most %d are allowed", len(headers), maxHeaders),
			"send data in the payload")
		return
	}
	c.headers = make(map[string]string, len(headers))
	seen := make(map[string]bool, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		field := "headers." + settings.ShowName(name)
		if !validName(name) {
			r.Add(field, "it is not the name of a header", "use letters, digits and '-'")
			continue
		}
		if !validValue(headers[name].Plain) {
			r.Add(field, "its value has a line break or another control character", "remove it")
			continue
		}
		canonical := http.CanonicalHeaderKey(name)
		why, isReserved := reserved[canonical]
		if strings.HasPrefix(canonical, "Belfry-") {
			why, isReserved = ofBelfry, true
		}
		if isReserved {
			r.Add(field, why, "remove it")
			continue
		}
		if seen[canonical] {
			r.Add(field, "it is there twice", "header names are case-insensitive: keep one")
			continue
		}
		seen[canonical] = true
		if value := headers[name]; value.Secret != "" {
			c.stored = append(c.stored, stored{header: canonical, secret: value.Secret})
		} else {
			c.headers[canonical] = value.Plain
		}
	}
}

// validName reports whether s is a token (RFC 9110, 5.6.2).
func validName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return false
		default:
			return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
		}
	})
}

// validValue reports whether s has no control characters except tabs.
func validValue(s string) bool {
	for i := range len(s) {
		if b := s[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}
