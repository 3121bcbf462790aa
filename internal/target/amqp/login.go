package amqp

import (
	"errors"
	"regexp"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/belfry-dev/belfry/internal/target/broker"
)

// login asks the broker to report a wrong password explicitly. By default RabbitMQ just closes the
// connection, which looks the same as a broker that is stopping. The client reports both as wrong
// credentials, but only a wrong password is permanent.
type login struct {
	amqp091.PlainAuth
	properties amqp091.Table // of the connection
}

// Mechanism adds a capability. The client calls it after it has set its own capabilities and before it sends
// them, and offers no other way to add one.
func (l *login) Mechanism() string {
	if capabilities, ok := l.properties["capabilities"].(amqp091.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return l.PlainAuth.Mechanism()
}

// atLimit matches the end of RabbitMQ's message when a virtual host, a user or a node has too many
// connections. The error has no code of its own, and the text before may contain any name.
var atLimit = regexp.MustCompile(`limit (\(\d+\) is reached|cannot be queried, timeout)$`)

// refused reports whether the broker permanently rejects this user.
func refused(err error) bool {
	var e *amqp091.Error
	switch {
	case errors.Is(err, amqp091.ErrSASL):
		return true // the broker offers only other mechanisms
	case !fromServer(err) || !errors.As(err, &e):
		return false
	case e.Code == amqp091.NotAllowed:
		return !atLimit.MatchString(e.Reason)
	default:
		return e.Code == amqp091.AccessRefused
	}
}

// fromServer reports whether the broker, and not the client, reported the error.
func fromServer(err error) bool {
	var e *amqp091.Error
	return errors.As(err, &e) && e.Server
}

var errRefused = &broker.FinalError{Err: errors.New("the broker does not take these credentials, " +
	"or not for this virtual host; fix user, password and vhost")}
