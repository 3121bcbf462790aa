package nats

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nkeys"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/throttle"
)

// connector opens connections.
type connector struct {
	access             broker.Access
	token, credentials string // may be empty
	dialer             broker.Dialer
}

// Connection implements broker.Settings.
func (c *config) Connection(
	ctx context.Context, o *broker.Options, namespace uuid.UUID,
) (string, broker.OpenFunc[*connection], error) {
	token, err := c.ReadSecret(ctx, o, namespace, c.token)
	if err != nil {
		return "", nil, fmt.Errorf("token: %w", err)
	}
	credentials, err := c.ReadSecret(ctx, o, namespace, c.credentials)
	if err != nil {
		return "", nil, fmt.Errorf("credentials: %w", err)
	}
	if _, err := nkeys.ParseDecoratedUserNKey([]byte(credentials)); credentials != "" && err != nil {
		return "", nil, &broker.FinalError{Err: errors.New("the secret that credentials names " +
			"is not the text of a .creds file of a user; store that")}
	}
	access, err := c.Access(ctx, o, namespace, token, credentials)
	if err != nil {
		return "", nil, err
	}
	connect := &connector{access: access, token: token, credentials: credentials, dialer: o.Dialer}
	return access.Key, connect.open, nil
}

// open connects to the servers in random order, like clients of NATS that spread over a cluster.
func (o *connector) open(ctx context.Context) (conn *connection, err error) {
	access := o.access
	access.Servers = slices.Clone(access.Servers)
	mathrand.Shuffle(len(access.Servers), func(i, j int) { //nolint:gosec // the order is not a secret
		access.Servers[i], access.Servers[j] = access.Servers[j], access.Servers[i]
	})
	err = access.Try(ctx, func(ctx context.Context, server string) (err error) {
		conn, err = o.openOne(ctx, server)
		return err
	})
	return conn, err
}

func (o *connector) openOne(ctx context.Context, server string) (*connection, error) {
	throttled := throttle.New(o.dialer, broker.Burst)
	plain, err := broker.DialPlain(ctx, throttled, server)
	if err != nil {
		return nil, err
	}
	conn, r, greeting, err := o.greet(ctx, plain, server)
	if err != nil {
		_ = plain.Close()
		return nil, err
	}
	inbox := "_INBOX." + rand.Text() + "."
	if err := o.login(conn, r, greeting, inbox); err != nil {
		_ = conn.Close()
		return nil, err
	}
	c := &connection{
		conn: conn, throttle: throttled, inbox: inbox, maxPayload: greeting.MaxPayload,
		outbox: make(chan *outgoing), pong: make(chan struct{}, 1), broken: make(chan struct{}),
		pending: map[uint64]chan received{},
	}
	c.run(r)
	return c, nil
}

// greet reads the server's INFO and begins TLS if the settings or the server want it.
func (o *connector) greet(
	ctx context.Context, plain *broker.Conn, server string,
) (conn *broker.Conn, r *lineReader, greeting *info, err error) {
	if err := plain.SetDeadline(deadline(ctx)); err != nil {
		return nil, nil, nil, err
	}
	r = newLineReader(plain)
	verb, args, err := r.line()
	if err != nil {
		return nil, nil, nil, err
	}
	if verb != "INFO" {
		return nil, nil, nil, errProtocol
	}
	i, err := parseInfo(args)
	if err != nil {
		return nil, nil, nil, err
	}
	config := o.access.TLS
	switch {
	case config != nil && !i.TLSRequired && !i.TLSAvailable:
		return nil, nil, nil, &broker.FinalError{Err: errors.New("the server does not speak TLS, and tls is set; " +
			"remove it, or give the port for TLS")}
	case config == nil && !i.TLSRequired:
		return plain, r, &i, nil
	case r.Buffered() > 0: // sent in the clear, and would be read as if it had been encrypted
		return nil, nil, nil, errProtocol
	case config == nil:
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if conn, err = broker.Secure(ctx, plain, config, server); err != nil {
		return nil, nil, nil, err
	}
	return conn, newLineReader(conn), &i, nil
}

// login authenticates and subscribes to responses.
func (o *connector) login(conn *broker.Conn, r *lineReader, greeting *info, inbox string) error {
	if !greeting.Headers {
		return broker.OwnError("it does not support headers; NATS 2.2 or later does")
	}
	text, err := o.introduce(greeting)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s\r\nPING\r\n", text); err != nil {
		return err
	}
	if err := awaitPong(r); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "SUB %s* %s\r\n", inbox, subscription); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// introduce returns the JSON of CONNECT.
func (o *connector) introduce(greeting *info) ([]byte, error) {
	c := connect{
		User: o.access.User, Password: o.access.Password, Token: o.token, TLS: o.access.TLS != nil,
		Name: "belfry", Lang: "go", Version: "1", Protocol: 1, Echo: true, Headers: true, NoResponders: true,
	}
	if o.credentials != "" {
		key, err := nkeys.ParseDecoratedUserNKey([]byte(o.credentials))
		if err != nil {
			return nil, errCredentials
		}
		defer key.Wipe()
		signature, err := key.Sign([]byte(greeting.Nonce))
		if err != nil {
			return nil, errCredentials
		}
		c.Signature = base64.RawURLEncoding.EncodeToString(signature)
		if c.JWT, err = nkeys.ParseDecoratedJWT([]byte(o.credentials)); err != nil {
			return nil, errCredentials
		}
	}
	return json.Marshal(c) //nolint:gosec // the server gets the credentials
}

var errCredentials = &broker.FinalError{Err: errors.New("the server does not take these credentials; " +
	"fix user and password, token or credentials")}

// awaitPong waits for the response to a login.
func awaitPong(r *lineReader) error {
	for range 10 {
		verb, args, err := r.line()
		switch {
		case err != nil:
			return err
		case verb == "PONG":
			return nil
		case verb == "-ERR":
			return loginError(errorText(args))
		case verb != "INFO" && verb != "+OK":
			return errProtocol
		}
	}
	return errProtocol
}

// loginError returns what an error of the server means during a login.
func loginError(text string) error {
	for _, prefix := range []string{
		"authorization violation", "user authentication expired", "user authentication revoked",
		"account authentication expired",
	} {
		if strings.HasPrefix(strings.ToLower(text), prefix) {
			return errCredentials
		}
	}
	return errors.New("nats: " + text)
}

// deadline returns when ctx ends.
func deadline(ctx context.Context) time.Time {
	if until, ok := ctx.Deadline(); ok {
		return until
	}
	return clock.Now().Add(broker.FallbackTimeout)
}
