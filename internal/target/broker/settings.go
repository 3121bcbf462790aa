package broker

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

// Mechanisms are the logins of kafka. The first is the default.
var Mechanisms = []string{"SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"}

var ports = map[string]string{"kafka": "9092", "nats": "4222", "amqp": "5672"}

// Complete fills in what an operator may leave out of a broker, and returns all problems with it. None has a secret.
func Complete(b *access.Broker) error {
	var c problem.Checker
	if !job.ValidQueueName(b.Name) {
		c.Add("name", "it is not a name for a broker", job.QueueNameFix)
	}
	problem.OneOf(&c, "kind", b.Kind, access.BrokerKinds...)
	completeServers(&c, b)
	checkLogin(&c, b)
	checkTLS(&c, b)
	return c.Err()
}

func completeServers(c *problem.Checker, b *access.Broker) {
	if len(b.Config.Servers) == 0 {
		c.Add("server", "there is none", "give host:port, more than once for several")
	}
	for i, server := range b.Config.Servers {
		host, port, err := net.SplitHostPort(server)
		if err != nil && !strings.Contains(server, ":") {
			host, port, err = server, ports[b.Kind], nil
		}
		if err != nil || host == "" || strings.ContainsAny(host, "/@") || !settings.PlainHost(host) {
			c.Add("server", "it is not host:port", "write for example broker.example.com:"+ports[b.Kind]+
				", without a scheme, user or path")
			continue
		}
		b.Config.Servers[i] = net.JoinHostPort(host, port)
	}
}

func checkLogin(c *problem.Checker, b *access.Broker) {
	of := func(kind, field string, set bool) {
		if set && b.Kind != kind {
			c.Add(field, "brokers of this kind have no such setting", "leave it out")
		}
	}
	cred := b.Credentials
	of("kafka", "sasl", b.Config.SASL != "")
	of("amqp", "vhost", b.Config.VHost != "")
	of("nats", "token-file", cred.Token != "")
	of("nats", "credentials-file", cred.Creds != "")
	if b.Config.SASL != "" {
		problem.OneOf(c, "sasl", b.Config.SASL, Mechanisms...)
	}
	if (b.Config.User == "") != (cred.Password == "") {
		c.Add("password-file", "user and password go together", "give both, or neither")
	}
	if b.Kind == "amqp" && b.Config.User == "" {
		c.Add("username", "RabbitMQ wants a user", "give --username and --password-file")
	}
	ways := slices.DeleteFunc([]string{cred.Password, cred.Token, cred.Creds}, func(s string) bool { return s == "" })
	if len(ways) > 1 {
		c.Add("credentials-file", "more than one of password, token and credentials is given",
			"keep the one that the server wants")
	}
}

func checkTLS(c *problem.Checker, b *access.Broker) {
	t := b.Config.TLS
	if t == nil {
		if b.Credentials.Key != "" {
			c.Add("tls-key-file", "there is no certificate for it", "give --tls-certificate too")
		}
		return
	}
	if t.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(t.CA)) {
		c.Add("tls-ca", "it contains no certificate", "write it as PEM")
	}
	if (t.Certificate == "") != (b.Credentials.Key == "") {
		c.Add("tls-key-file", "certificate and key go together", "give both, or neither")
	} else if _, err := TLSConfig(b); err != nil {
		c.Add("tls-key-file", err.Error(), "give both as PEM")
	}
}

// TLSConfig returns the config of encrypted connections to a broker; nil: there are none.
func TLSConfig(b *access.Broker) (*tls.Config, error) {
	t := b.Config.TLS
	if t == nil {
		return nil, nil //nolint:nilnil // no TLS and no error
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		out.RootCAs = x509.NewCertPool()
		out.RootCAs.AppendCertsFromPEM([]byte(t.CA))
	}
	if t.Certificate != "" {
		pair, err := tls.X509KeyPair([]byte(t.Certificate), []byte(b.Credentials.Key))
		if err != nil { // whose text may quote the key
			return nil, errors.New("certificate and key do not fit each other")
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// keyOf identifies what may share a connection. It is a hash, because it is made from credentials.
func keyOf(b *access.Broker) (string, error) {
	text, err := json.Marshal(struct {
		Name        string
		Config      access.BrokerConfig
		Credentials access.BrokerCredentials
	}{b.Name, b.Config, b.Credentials})
	sum := sha256.Sum256(text)
	return string(sum[:]), err
}

// Clear reports whether what is sent to a broker crosses a network without encryption.
func Clear(b *access.Broker) bool {
	return b.Config.TLS == nil && slices.ContainsFunc(b.Config.Servers, func(server string) bool {
		host, _, _ := net.SplitHostPort(server)
		return secret.Remote([]string{host})
	})
}

// ClearLogin reports whether the credentials of a broker cross a network without encryption. SCRAM does not send the
// password, and the credentials of NATS only sign.
func ClearLogin(b *access.Broker) bool {
	c := b.Credentials
	return Clear(b) && (c.Token != "" || c.Password != "" && (b.Kind != "kafka" || b.Config.SASL == "PLAIN"))
}
