package nats

import (
	"strings"

	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

var form = broker.Form{
	Kind: "nats", Example: `{"broker": "events", "subject": "orders.due"}`,
	Settings: []string{"subject", "stream"}, ValidHeader: validHeader,
}

// config is a valid config.
type config struct {
	broker.Config
	subject *expr.Template
	stream  string // the stream that must store the message; empty: any
}

func parse(text string) (*config, error) {
	r, common := broker.Read([]byte(text), form)
	c := &config{Config: common}
	if r.Readable() {
		c.subject = r.Template("subject", "")
		c.stream = r.Text("stream", 255)
		if c.subject != nil && c.subject.Plain() {
			if subject, _ := c.subject.Text(nil); !validSubject(subject) {
				r.Add("subject", "it is not a subject that can be published to",
					"use words separated by dots, without spaces, * and >")
			}
		}
	}
	return c, r.Err()
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
