package kafka

import (
	"regexp"

	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

var form = broker.Form{
	Kind: "kafka", Example: `{"broker": "events", "topic": "orders"}`,
	Settings: []string{"topic", "key"}, ValidHeader: func(string) bool { return true },
}

var topicForm = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// config is a valid config.
type config struct {
	broker.Config
	topic *expr.Template
	key   *expr.Template
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
	}
	return c, r.Err()
}
