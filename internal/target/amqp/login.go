package amqp

import (
	"errors"
	"regexp"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/belfry-dev/belfry/internal/target/broker"
)

// login has the broker say no aloud. One that just hangs up on a wrong password
// cannot be told from one that is stopped meanwhile: the client calls both wrong
// credentials, and only the first stays so.
type login struct {
	amqp091.PlainAuth
	properties amqp091.Table // of the connection
}

// Mechanism is asked for when the client has made its capabilities, and before it
// sends them: it takes no others.
func (l *login) Mechanism() string {
	if capabilities, ok := l.properties["capabilities"].(amqp091.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return l.PlainAuth.Mechanism()
}

// atLimit is how RabbitMQ ends what it says to one connection too many of a virtual
// host, a user or a node. It has no code of its own, and what comes before it may
// name anything.
var atLimit = regexp.MustCompile(`limit (\(\d+\) is reached|cannot be queried, timeout)$`)

// refused says that the broker itself does not want this user there, whether it
// is asked now or later.
func refused(err error) bool {
	var e *amqp091.Error
	switch {
	case errors.Is(err, amqp091.ErrSASL):
		return true // the broker named other ways to log in
	case !said(err) || !errors.As(err, &e):
		return false
	case e.Code == amqp091.NotAllowed:
		return !atLimit.MatchString(e.Reason)
	default:
		return e.Code == amqp091.AccessRefused
	}
}

// said tells a broker's words from the client's.
func said(err error) bool {
	var e *amqp091.Error
	return errors.As(err, &e) && e.Server
}

var errRefused = &broker.FinalError{Err: errors.New("the broker does not take these credentials, or not for this virtual host; mend user, password and vhost")}
