package amqp

import (
	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// maxShort is the maximum length of AMQP's short strings in bytes.
const maxShort = 255

var form = broker.Form{
	Kind:     "amqp",
	Example:  `{"broker": "events", "exchange": "orders", "routing_key": "due"}`,
	Settings: []string{"exchange", "routing_key"}, ValidHeader: func(string) bool { return true },
}

// config is a valid config.
type config struct {
	broker.Config
	exchange   string // empty: the default exchange, where the routing key is the name of a queue
	routingKey *expr.Template
}

func parse(text string) (*config, error) {
	r, common := broker.Read([]byte(text), form)
	c := &config{Config: common}
	if r.Readable() {
		c.exchange = r.Text("exchange", maxShort)
		c.routingKey = r.Template("routing_key", "")
		if c.routingKey != nil && c.routingKey.Plain() {
			if key, _ := c.routingKey.Text(nil); len(key) > maxShort {
				r.Add("routing_key", "it has more than 255 bytes", "shorten it")
			}
		}
	}
	return c, r.Err()
}
