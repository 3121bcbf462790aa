package amqp

import (
	"encoding/json"

	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// maxShort is how long names may be, in bytes: AMQP's short strings.
const maxShort = 255

var form = broker.Form{
	Port: "5672", Example: `{"servers": ["rabbitmq.example.com:5672"], "user": "belfry", "password": {"secret": "rabbitmq"}, "exchange": "orders", "routing_key": "due"}`,
	Names: []string{"vhost", "exchange", "routing_key"}, Header: func(string) bool { return true },
}

// config is what a user writes, checked.
type config struct {
	broker.Config
	vhost      string
	exchange   string // empty: the default one, where the routing key is the name of a queue
	routingKey *expr.Template
}

// Check says what is wrong with a config: see target.Target.
func (*Target) Check(raw json.RawMessage) error {
	_, err := parse(string(raw))
	return err
}

func parse(text string) (*config, error) {
	r, all := broker.Read([]byte(text), form)
	c := &config{Config: all, vhost: "/"}
	if r.Readable() {
		c.exchange = r.Text("exchange", maxShort)
		c.routingKey = r.Template("routing_key", "")
		if vhost := r.Text("vhost", maxShort); vhost != "" {
			c.vhost = vhost
		}
		if c.routingKey != nil && c.routingKey.Plain() {
			if key, _ := c.routingKey.Text(nil); len(key) > maxShort {
				r.Add("routing_key", "it has more than 255 bytes", "shorten it")
			}
		}
		if c.User == "" || c.Password.Secret == "" {
			r.Add("user", "user or password is missing", `write "user": "NAME", "password": {"secret": "NAME"}`)
		}
	}
	return c, r.Err()
}
