package http

import (
	"slices"
	"strings"

	"github.com/belfry-dev/belfry/internal/target/message"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// maxSnippet is how much of a response is kept, in bytes.
const maxSnippet = 512

// harmless headers describe the format of the request and are never secret.
var harmless = []string{"Accept", "Accept-Language", "Cache-Control", "Content-Language", "Content-Type", "User-Agent"}

// secretsOf returns what must be redacted because of a config: the values of its headers, also without
// the scheme that an Authorization header begins with, and of its URL's query, and the segments of its path that are not
// words: for many webhooks, knowing the path is all that it takes to use them.
func secretsOf(c *config) []string {
	var all []string
	for name, value := range c.headers {
		if slices.Contains(harmless, name) {
			continue
		}
		all = append(all, value)
		if _, credentials, found := strings.Cut(value, " "); found {
			all = append(all, credentials)
		}
	}
	for _, values := range c.url.Query() {
		all = append(all, values...)
	}
	all = append(all, slices.DeleteFunc(segments(c.url.EscapedPath()), words)...)
	return secret.Forms(append(all, c.url.RawQuery))
}

// show prepares text from a receiver for a message. Secrets are redacted before anything is cut off; cut: the text may
// already end within one.
func (d *delivery) show(text []byte, cut bool) string {
	secrets := d.secrets
	if len(d.hide) > 0 {
		secrets = secret.Forms(append(slices.Clone(secrets), d.hide...))
	}
	return message.Clean(secret.RedactAnswer(string(text), secrets, cut), maxSnippet)
}
