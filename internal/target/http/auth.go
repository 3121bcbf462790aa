package http

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

// stored is a header whose value is a secret of the namespace.
type stored struct {
	header string // canonical
	secret string
	// The header's value is the scheme followed by the secret. Basic authentication adds the user.
	scheme, user string
}

func (s *stored) value(text string) string {
	if s.user != "" {
		text = base64.StdEncoding.EncodeToString([]byte(s.user + ":" + text))
	}
	return s.scheme + text
}

// stored reads a setting that must be a stored secret. Long-lived credentials do not belong in a
// definition that all viewers can read.
func (r *reader) stored(field string, raw json.RawMessage) string {
	var t secret.Text
	if json.Unmarshal(raw, &t) != nil || t.Secret == "" {
		r.Add(field, "it does not name a secret", `store it with belfry secret set NAME, and write {"secret": "NAME"}`)
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
		r.Add("auth", "it is not one way to authenticate",
			`write {"bearer": {"secret": "NAME"}} or {"basic": {"user": "…", "password": {"secret": "NAME"}}}`)
		return
	}
	_, plain := c.headers["Authorization"]
	if plain || slices.ContainsFunc(c.stored, func(s stored) bool { return s.header == "Authorization" }) {
		r.Add("auth", "there is a header Authorization too", "keep one of them")
		return
	}
	for _, way := range slices.Sorted(maps.Keys(auth)) {
		switch way {
		case "bearer":
			c.stored = append(c.stored, stored{
				header: "Authorization", secret: r.stored("auth.bearer", auth[way]), scheme: "Bearer ",
			})
		case "basic":
			r.basicAuth(c, auth[way])
		default:
			r.Add("auth."+settings.ShowName(way), "there is no such way to authenticate", "use bearer or basic")
		}
	}
}

func (r *reader) basicAuth(c *config, raw json.RawMessage) {
	var basic struct {
		User     string          `json:"user"`
		Password json.RawMessage `json:"password"`
	}
	if json.Unmarshal(raw, &basic) != nil || basic.User == "" ||
		strings.Contains(basic.User, ":") || !validValue(basic.User) {
		r.Add("auth.basic.user", "it is missing, or not a user's name", "write it without ':'")
		return
	}
	c.stored = append(c.stored, stored{
		header: "Authorization", secret: r.stored("auth.basic.password", basic.Password),
		scheme: "Basic ", user: basic.User,
	})
}

// signing reads the name of a secret, or false to turn off the namespace's default.
func (r *reader) signing(c *config, raw json.RawMessage) {
	if string(raw) == "false" {
		c.unsigned = true
		return
	}
	c.signing = r.stored("signing", raw)
}
