package nats

import (
	"encoding/json"
	"strings"

	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

var form = broker.Form{
	Port: "4222", Example: `{"servers": ["nats.example.com:4222"], "subject": "orders.due"}`,
	Names: []string{"subject", "stream", "token", "credentials"}, Header: validHeader,
}

// config is what a user writes, checked.
type config struct {
	broker.Config
	subject     *expr.Template
	stream      string      // that is to take it; empty: any
	token       secret.Text // in place of user and password
	credentials secret.Text // of a .creds file, in place of both
}

// Check says what is wrong with a config: see target.Target.
func (*Target) Check(raw json.RawMessage) error {
	_, err := parse(string(raw))
	return err
}

func parse(text string) (*config, error) {
	r, all := broker.Read([]byte(text), form)
	c := &config{Config: all}
	if r.Readable() {
		c.subject = r.Template("subject", "")
		c.stream = r.Text("stream", 255)
		c.token, c.credentials = r.Stored("token"), r.Stored("credentials")
		if c.subject != nil && c.subject.Plain() {
			if subject, _ := c.subject.Text(nil); !validSubject(subject) {
				r.Add("subject", "it is not a subject that can be published to", "use texts separated by dots, without spaces, * and >")
			}
		}
		if given := []bool{c.User != "", c.token.Secret != "", c.credentials.Secret != ""}; count(given) > 1 {
			r.Add("credentials", "more than one of user, token and credentials is given", "keep the one that the server wants")
		}
	}
	return c, r.Err()
}

func count(of []bool) (n int) {
	for _, one := range of {
		if one {
			n++
		}
	}
	return n
}

// validSubject says that a text is a subject without wildcards.
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
