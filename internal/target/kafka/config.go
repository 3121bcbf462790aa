package kafka

import (
	"regexp"
	"slices"
	"strings"

	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

var form = broker.Form{
	Kind: "kafka", Port: "9092", Example: `{"servers": ["kafka.example.com:9092"], "topic": "orders"}`,
	Settings: []string{"topic", "key", "sasl"}, ValidHeader: func(string) bool { return true },
}

var (
	topicForm  = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
	mechanisms = []string{"SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"} // the first is the default
)

// config is a valid config.
type config struct {
	broker.Config
	topic *expr.Template
	key   *expr.Template
	sasl  string
}

func parse(text string) (*config, error) {
	r, common := broker.Read([]byte(text), form)
	c := &config{Config: common}
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
			r.Add("sasl", "it is not a supported mechanism", "use "+strings.Join(mechanisms, ", "))
		}
		if (c.User == "") != (c.Password.Secret == "") {
			r.Add("password", "user and password go together", "give both, or neither")
		}
	}
	return c, r.Err()
}

// Uses returns the secrets of the config, and where it uses them. SCRAM does not send the password.
func (c *config) Uses() secret.Uses {
	out := c.Config.Uses()
	if c.sasl != "PLAIN" {
		out.Clear = c.Clear()
	}
	return out
}
