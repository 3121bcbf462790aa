package access

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Broker is a broker that the operator of the cluster has set. Jobs name it.
type Broker struct {
	Name        string
	Kind        string
	Config      BrokerConfig
	Credentials BrokerCredentials
	Namespaces  []string // that may use it; nil: all
	UpdatedAt   time.Time
}

// BrokerKinds are the kinds of targets that deliver to brokers.
var BrokerKinds = []string{"kafka", "nats", "amqp"}

// BrokerConfig says where a broker is, and how to log in there. It has no secret.
type BrokerConfig struct {
	Servers []string   `json:"servers"` // host:port
	TLS     *BrokerTLS `json:"tls,omitempty"`
	User    string     `json:"user,omitempty"`
	SASL    string     `json:"sasl,omitempty"`  // of kafka
	VHost   string     `json:"vhost,omitempty"` // of amqp
}

// BrokerTLS has the settings of encrypted connections. The server's certificate is always verified.
type BrokerTLS struct {
	CA          string `json:"ca,omitempty"`          // PEM; empty: the system's
	ServerName  string `json:"server_name,omitempty"` // empty: the host of the server
	Certificate string `json:"certificate,omitempty"` // of the client, PEM
}

// BrokerCredentials are the secrets of a broker. They are stored encrypted and never shown: fmt prints "[hidden]" instead.
type BrokerCredentials struct {
	Password string `json:"password,omitempty"`
	Token    string `json:"token,omitempty"` // of nats
	Creds    string `json:"creds,omitempty"` // of nats: the text of a .creds file
	Key      string `json:"key,omitempty"`   // of the client's certificate, PEM
}

func (BrokerCredentials) String() string { return hidden }

// GoString is for %#v.
func (BrokerCredentials) GoString() string { return hidden }

// Any reports whether there are credentials.
func (c BrokerCredentials) Any() bool { return c != BrokerCredentials{} }

// Values are the secrets themselves, to redact them.
func (c BrokerCredentials) Values() []string { return []string{c.Password, c.Token, c.Creds, c.Key} }

// BrokerInfo is what a namespace may know about a broker.
type BrokerInfo struct{ Name, Kind string }

// ErrNoBroker says that no broker of that name is there for the namespace. Others may have one.
var ErrNoBroker = errors.New("there is no broker of that name that this namespace may use")

// BrokerBound is the context that credentials are sealed with: they open only for the servers that they were set for.
func BrokerBound(b *Broker) ([]byte, error) {
	config, err := json.Marshal(b.Config)
	return fmt.Appendf(nil, "belfry broker %s %s %x", b.Name, b.Kind, sha256.Sum256(config)), err
}
