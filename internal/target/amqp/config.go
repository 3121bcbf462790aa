package amqp

import (
	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// maxShort is the maximum length of AMQP's short strings in bytes.
const maxShort = 255

var form = broker.Form{
	Kind: "amqp", Port: "5672",
	Example: `{"servers": ["rabbitmq.example.com:5672"], "user": "belfry", "password": {"secret": "rabbitmq"}, ` +
		`"exchange": "orders", "routing_key": "due"}`,
	Settings: []string{"vhost", "exchange", "routing_key"}, ValidHeader: func(string) bool { return true },
}

// config is a valid config.
type config struct {
	broker.Config
	vhost      string
	exchange   string // empty: the default exchange, where the routing key is the name of a queue
	routingKey *expr.Template
}

func parse(text string) (*config, error) {
	r, common := broker.Read([]byte(text), form)
	c := &config{Config: common, vhost: "/"}
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
