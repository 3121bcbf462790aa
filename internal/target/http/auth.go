package http

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/belfry-dev/belfry/internal/target/secret"
)

// stored is a header whose value is a secret of the namespace.
type stored struct {
	header string // canonical
	secret string
	// How the value is made of the secret: after a scheme and, of basic, with the user.
	scheme, user string
}

func (s *stored) value(text string) string {
	if s.user != "" {
		text = base64.StdEncoding.EncodeToString([]byte(s.user + ":" + text))
	}
	return s.scheme + text
}

// stored reads a setting that can only be a stored secret: what is long-lived and
// as good as a password does not belong into a definition that all viewers read.
func (r *reader) stored(field string, raw json.RawMessage) string {
	var t secret.Text
	if json.Unmarshal(raw, &t) != nil || t.Secret == "" {
		r.add(field, "it does not name a secret", `store it with belfry secret set NAME, and write {"secret": "NAME"}`)
		return ""
	}
	return t.Secret
}

func (r *reader) auth(c *config, raw json.RawMessage) {
	if raw == nil {
		return
	}
	var auth map[string]json.RawMessage
	if json.Unmarshal(raw, &auth) != nil || len(auth) != 1 {
		r.add("auth", "it is not one way to authenticate", `write {"bearer": {"secret": "NAME"}} or {"basic": {"user": "…", "password": {"secret": "NAME"}}}`)
		return
	}
	if _, twice := c.headers["Authorization"]; twice || slices.ContainsFunc(c.stored, func(s stored) bool { return s.header == "Authorization" }) {
		r.add("auth", "there is a header Authorization too", "keep one of them")
		return
	}
	for _, way := range slices.Sorted(maps.Keys(auth)) {
		switch way {
		case "bearer":
			c.stored = append(c.stored, stored{header: "Authorization", secret: r.stored("auth.bearer", auth[way]), scheme: "Bearer "})
		case "basic":
			var basic struct {
				User     string          `json:"user"`
				Password json.RawMessage `json:"password"`
			}
			if json.Unmarshal(auth[way], &basic) != nil || basic.User == "" || strings.Contains(basic.User, ":") || !validValue(basic.User) {
				r.add("auth.basic.user", "it is missing, or not a user's name", "write it without ':'")
				return
			}
			c.stored = append(c.stored, stored{header: "Authorization", secret: r.stored("auth.basic.password", basic.Password), scheme: "Basic ", user: basic.User})
		default:
			r.add("auth."+shorten(way), "there is no such way to authenticate", "use bearer or basic")
		}
	}
}

// signing: a secret of its own, or false against the namespace's.
func (r *reader) signing(c *config, raw json.RawMessage) {
	if string(raw) == "false" {
		c.unsigned = true
		return
	}
	c.signing = r.stored("signing", raw)
}
