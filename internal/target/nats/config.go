package nats

import (
	"strings"

	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

var form = broker.Form{
	Kind: "nats", Port: "4222", Example: `{"servers": ["nats.example.com:4222"], "subject": "orders.due"}`,
	Settings: []string{"subject", "stream", "token", "credentials"}, ValidHeader: validHeader,
}

// config is a valid config. It has at most one of user, token and credentials.
type config struct {
	broker.Config
	subject     *expr.Template
	stream      string // the stream that must store the message; empty: any
	token       secret.Text
	credentials secret.Text // the text of a .creds file
}

func parse(text string) (*config, error) {
	r, common := broker.Read([]byte(text), form)
	c := &config{Config: common}
	if r.Readable() {
		c.subject = r.Template("subject", "")
		c.stream = r.Text("stream", 255)
		c.token, c.credentials = r.Stored("token"), r.Stored("credentials")
		if c.subject != nil && c.subject.Plain() {
			if subject, _ := c.subject.Text(nil); !validSubject(subject) {
				r.Add("subject", "it is not a subject that can be published to",
					"use words separated by dots, without spaces, * and >")
			}
		}
		if count(c.User != "", c.token.Secret != "", c.credentials.Secret != "") > 1 {
			r.Add("credentials", "more than one of user, token and credentials is given",
				"keep the one that the server wants")
		}
	}
	return c, r.Err()
}

// Uses returns the secrets of the config, and where it uses them.
func (c *config) Uses() secret.Uses {
	out := c.Config.Uses()
	out.Add(c.token, c.credentials)
	out.Clear = c.Clear(c.Password, c.token) // credentials only sign
	return out
}

// count returns how many conditions are true.
func count(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// validSubject reports whether s is a subject without wildcards.
func validSubject(s string) bool {
	for token := range strings.SplitSeq(s, ".") {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n\x00") {
			return false
		}
	}
	return len(s) <= 1024 && !strings.HasPrefix(s, "$")
}

func validHeader(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' })
}
