package kafka

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

var form = broker.Form{
	Port: "9092", Example: `{"servers": ["kafka.example.com:9092"], "topic": "orders"}`,
	Names: []string{"topic", "key", "sasl"}, Header: func(string) bool { return true },
}

var (
	topicForm  = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
	mechanisms = []string{"SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"} // the first is the default
)

// config is what a user writes, checked.
type config struct {
	broker.Config
	topic *expr.Template
	key   *expr.Template
	sasl  string
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
		c.topic = r.Template("topic", "")
		c.key = r.Template("key", "${idempotency_key}")
		if c.topic != nil && c.topic.Plain() {
			if topic, _ := c.topic.Text(nil); !topicForm.MatchString(topic) {
				r.Add("topic", "it is not the name of a topic", "use up to 249 letters, digits, '.', '_' and '-'")
			}
		}
		if c.sasl = r.Text("sasl", 20); c.sasl == "" {
			c.sasl = mechanisms[0]
		}
		if !slices.Contains(mechanisms, c.sasl) {
			r.Add("sasl", "it is not a mechanism that is spoken", "use "+strings.Join(mechanisms, ", "))
		}
		if (c.User == "") != (c.Password.Secret == "") {
			r.Add("password", "user and password go together", "give both, or neither")
		}
	}
	return c, r.Err()
}
