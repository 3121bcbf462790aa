package http

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// The names of what Belfry sends. The first is not spelled as usual so that
// net/http does not repeat requests by itself: see doc.go.
const (
	idempotencyKey = "idempotency-key"
	runID          = "Belfry-Run-Id"
	jobID          = "Belfry-Job-Id"
	dueAt          = "Belfry-Due-At"
	attempt        = "Belfry-Attempt"
	traceparent    = "Traceparent"
)

// dueLayout is RFC 3339 with all six digits, so that texts sort as times do.
const dueLayout = "2006-01-02T15:04:05.000000Z07:00"

// Values that all requests share. net/http only reads them.
var (
	userAgent = []string{"Belfry/1"}
	jsonType  = []string{"application/json"}
)

// The names that a config cannot set, and why.
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
	// Kept free for signatures and traces, so that jobs saved today do not collide with them.
	"Webhook-Id": ofBelfry, "Webhook-Timestamp": ofBelfry, "Webhook-Signature": ofBelfry,
	"Traceparent": ofBelfry, "Tracestate": ofBelfry,
}

func (r *reader) headers(c *config, raw json.RawMessage) {
	var headers map[string]string
	if json.Unmarshal(raw, &headers) != nil {
		r.add("headers", "it is not an object of texts", `write for example {"Authorization": "Bearer …"}`)
		return
	}
	if len(headers) > maxHeaders {
		r.add("headers", fmt.Sprintf("%d headers; at most %d are taken", len(headers), maxHeaders), "send data in the payload")
		return
	}
	c.headers = make(map[string]string, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		field := "headers." + shorten(name)
		if !validName(name) {
			r.add(field, "it is not the name of a header", "use letters, digits and '-'")
			continue
		}
		if !validValue(headers[name]) {
			r.add(field, "its value has a line break or another control character", "remove it")
			continue
		}
		canonical := http.CanonicalHeaderKey(name)
		why, taken := reserved[canonical]
		if strings.HasPrefix(canonical, "Belfry-") {
			why, taken = ofBelfry, true
		}
		if taken {
			r.add(field, why, "remove it")
			continue
		}
		if _, twice := c.headers[canonical]; twice {
			r.add(field, "it is there twice", "names of headers have no case: keep one")
			continue
		}
		c.headers[canonical] = headers[name]
	}
}

// validName says that a text is a token (RFC 9110, 5.6.2).
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

// validValue says that a text has no control character but tabs.
func validValue(s string) bool {
	for i := range len(s) {
		if b := s[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}
