package http

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

// Limits of a URL.
const (
	maxURL        = 2048 // bytes of a URL, and of a secret in it
	maxURLSecrets = 8
	maxWord       = 15 // letters of a word in a path
	maxNumber     = 4  // digits of a number in a path
)

// A secret in a URL is written ${secret.NAME}.
const urlSecretStart = "${secret."

var urlSecret = regexp.MustCompile(`\$\{secret\.([^{}]*)\}`)

func (r *reader) url(c *config, raw json.RawMessage) {
	var text string
	if raw == nil || json.Unmarshal(raw, &text) != nil || text == "" {
		r.Add("url", "it is missing or not a string", "say where runs go, for example https://example.com/hook")
		return
	}
	if len(text) > maxURL {
		r.Add("url", fmt.Sprintf("%d bytes; at most %d are allowed", len(text), maxURL),
			"send long data in the payload")
		return
	}
	u, err := url.Parse(text)
	switch {
	case strings.Contains(text, urlSecretStart) && (err != nil || !validSecrets(u, text)):
		r.Add("url", "it has a secret in the wrong place, or one that is not written as ${secret.NAME}",
			fmt.Sprintf("name up to %d secrets, in its path and its query only, for example "+
				"https://example.com/hooks/${secret.NAME}", maxURLSecrets))
	case err != nil:
		r.Add("url", "it is not a URL", "write for example https://example.com/hook, with special characters escaped")
	case u.Scheme != "http" && u.Scheme != "https":
		r.Add("url", "only http and https are supported", "begin it with https://")
	case u.User != nil:
		r.Add("url", "it has a user or password", "store the password as a secret and use auth.basic")
	case u.Hostname() == "":
		r.Add("url", "it names no host", "write for example https://example.com/hook")
	case !settings.PlainHost(u.Hostname()):
		r.Add("url", "its host has characters other than ASCII, or a zone",
			"write the name as DNS has it (xn--bcher-kva.example), and an address without its zone")
	case !validPort(u.Port()):
		r.Add("url", "its port is not valid", "use 1 to 65535, or leave it out")
	default:
		c.url, c.inURL = u, slices.Compact(slices.Sorted(slices.Values(secretsIn(u))))
	}
}

func validPort(p string) bool {
	n, err := strconv.ParseUint(p, 10, 16)
	return p == "" || err == nil && n > 0
}

// secretsIn returns the names of the secrets in the path and the query of a URL. A brace is never part of the default
// encoding of a path, so RawPath has the path as it was written.
func secretsIn(u *url.URL) (names []string) {
	for _, found := range urlSecret.FindAllStringSubmatch(u.RawPath+"?"+u.RawQuery, -1) {
		names = append(names, found[1])
	}
	return names
}

// validSecrets reports whether all secrets in the text of a URL are well-formed, and in its path or query.
func validSecrets(u *url.URL, text string) bool {
	names := secretsIn(u)
	for _, name := range names {
		if access.CheckSecretName(name) != nil {
			return false
		}
	}
	return len(names) == strings.Count(text, urlSecretStart) && len(names) <= maxURLSecrets
}

// fillURL puts the secrets into the path and the query of the request. Host, port and scheme stay as the config has
// them.
func (t *Target) fillURL(ctx context.Context, d *delivery, a *job.Attempt) *job.Outcome {
	if len(d.inURL) == 0 {
		return nil
	}
	use := d.use
	use.Kind = access.KindURL
	values := make(map[string]string, len(d.inURL))
	for _, name := range d.inURL {
		value, err := secret.Text{Secret: name}.Read(ctx, t.opts.Secrets, a.Namespace, use)
		switch {
		case err != nil:
			return withoutSecret(name, err)
		case !validValue(value):
			return unusable(name, "it has a line break or another control character, which a URL cannot carry")
		case len(value) > maxURL:
			return unusable(name, fmt.Sprintf("it has more than %d bytes, which is too long for a URL", maxURL))
		}
		values[name] = value
		d.hide = append(d.hide, URLForms(value)...)
	}
	fill := func(text string, escape func(string) string) string {
		return urlSecret.ReplaceAllStringFunc(text, func(found string) string {
			return escape(values[found[len(urlSecretStart):len(found)-1]])
		})
	}
	u := *d.base.URL
	if u.RawPath != "" {
		u.RawPath = fill(u.RawPath, pathEscape)
		path, err := url.PathUnescape(u.RawPath)
		if err != nil { // the config was parsed, and values are escaped
			return &job.Outcome{Kind: job.Failed, Message: "not sent: the path of the url is not valid; fix the job"}
		}
		u.Path = path
	}
	u.RawQuery = fill(u.RawQuery, url.QueryEscape)
	d.req.URL = &u
	return nil
}

// URLForms returns the spellings of a secret in a URL, which must be redacted.
func URLForms(value string) []string {
	escaped := pathEscape(value)
	return append([]string{value, escaped, url.QueryEscape(value)}, segments(escaped)...)
}

// pathEscape escapes a value for a path. Its slashes stay, because the secret of many webhooks is several segments.
func pathEscape(value string) string {
	parts := strings.Split(value, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// segments returns the parts of an escaped path, both escaped and not.
func segments(path string) (out []string) {
	for part := range strings.SplitSeq(path, "/") {
		out = append(out, part)
		if plain, err := url.PathUnescape(part); err == nil && plain != part {
			out = append(out, plain)
		}
	}
	return out
}

// words reports whether a segment of a path consists of words and short numbers, as in /billing/invoices-2026. Such
// segments are no secrets, and servers use the same words in what they say.
func words(segment string) bool {
	for part := range strings.FieldsFuncSeq(segment, func(r rune) bool { return strings.ContainsRune("-_.~ ", r) }) {
		letters, digits := 0, 0
		for _, r := range part {
			switch {
			case unicode.IsDigit(r):
				digits++
			case unicode.IsLetter(r):
				letters++
			default:
				return false
			}
		}
		if letters > 0 && digits > 0 || letters > maxWord || digits > maxNumber {
			return false
		}
	}
	return true
}
