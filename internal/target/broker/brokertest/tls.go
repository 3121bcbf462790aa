package brokertest

import (
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

// Secured is a real broker with TLS and a login.
type Secured struct {
	access.Broker
	New     func(broker.Options) targettest.Target
	Config  string // of the job, without the broker
	Plain   string // an address without TLS
	Expired Endpoint
	Mutual  Endpoint // requires a client certificate
	Dir     string   // of certificates
	// SelfSecuring says that the client uses TLS if the server requires it, even if it is not set.
	SelfSecuring bool
}

// Endpoint is where a server listens.
type Endpoint struct {
	Address   string
	Name      string // server name; empty: the host of the address
	Anonymous bool   // it accepts no user
}

// NewSecured returns the server whose URL is in an environment variable, with the certificates of a service
// of dev/services. Without the variable it skips the test.
func NewSecured(t *testing.T, variable, service string) *Secured {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		t.Skip("no broker with TLS; run: make test-targets")
	}
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	s := &Secured{
		Expired: Endpoint{Address: u.Host, Name: "expired.test"},
		Mutual:  Endpoint{Address: u.Host, Name: "mutual.test"},
		Dir:     filepath.Join(os.Getenv("BELFRY_TEST_SERVICES_DIR"), "run", service, "data", "tls"),
	}
	s.Broker.Config.Servers, s.Broker.Config.User = []string{u.Host}, u.User.Username()
	s.Credentials.Password, _ = u.User.Password()
	s.Broker.Config.TLS = &access.BrokerTLS{CA: s.PEM(t, "ca", Certificate)}
	return s
}

// Types of PEM blocks.
const (
	Certificate = "CERTIFICATE"
	Key         = "PRIVATE KEY"
)

// PEM returns the first PEM block of a type in a file.
func (s *Secured) PEM(t *testing.T, file, part string) string {
	t.Helper()
	rest, err := os.ReadFile(filepath.Join(s.Dir, file+".pem")) //nolint:gosec // a file of the test
	if err != nil {
		t.Fatal(err)
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			t.Fatalf("no %s in %s.pem", part, file)
		}
		if block.Type == part {
			return string(pem.EncodeToMemory(block))
		}
	}
}

// Deliver delivers to a variant of the broker, and checks that no secret appears in the outcome.
func (s *Secured) Deliver(t *testing.T, change func(b *access.Broker)) job.Outcome {
	t.Helper()
	b, secure := s.Broker, *s.Broker.Config.TLS
	b.Config.TLS = &secure
	change(&b)
	name := Set(b)
	target := s.New(broker.Options{Brokers: Brokers{}})
	defer target.Close()
	out := target.Deliver(t.Context(), Attempt(s.Kind, fmt.Sprintf(`{"broker": %q, %s}`, name, s.Config)))
	for _, value := range b.Credentials.Values() {
		for line := range strings.Lines(value) { // a key has many lines, and none may appear
			if line = strings.TrimSpace(line); line != "" && line != b.Config.User && strings.Contains(out.Message, line) {
				t.Errorf("the message contains a secret: %s", out.Message)
			}
		}
	}
	return out
}

// Run delivers with right and wrong TLS settings and logins. No failure is permanent, because the settings are the
// operator's.
func (s *Secured) Run(t *testing.T) {
	at := func(b *access.Broker, e Endpoint) {
		b.Config.Servers, b.Config.TLS.ServerName = []string{e.Address}, e.Name
		if e.Anonymous {
			b.Config.User, b.Credentials.Password = "", ""
		}
	}
	unsecured := ""
	if s.SelfSecuring {
		unsecured = "belfry broker set --tls-ca"
	}
	for _, c := range []struct {
		name   string
		change func(b *access.Broker)
		says   string
		works  bool
	}{
		{"right", func(*access.Broker) {}, "", true},
		{"client's certificate", func(b *access.Broker) {
			at(b, s.Mutual)
			b.Config.TLS.Certificate, b.Credentials.Key = s.PEM(t, "client", Certificate), s.PEM(t, "client", Key)
		}, "", true},
		{"one that is down", func(b *access.Broker) {
			b.Config.Servers = []string{"127.0.0.1:1", b.Config.Servers[0]}
		}, "", true},
		{"wrong password", func(b *access.Broker) { b.Credentials.Password = targettest.Secret }, "does not take the login", false},
		{"authority of strangers", func(b *access.Broker) { b.Config.TLS.CA = "" }, "belfry broker set --tls-ca", false},
		{"expired", func(b *access.Broker) { at(b, s.Expired) }, "expired", false},
		{"TLS to one without", func(b *access.Broker) { b.Config.Servers = []string{s.Plain} }, "", false},
		{"no TLS to one with", func(b *access.Broker) { b.Config.TLS = nil }, unsecured, false},
		{"no client's certificate", func(b *access.Broker) { at(b, s.Mutual) }, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out := s.Deliver(t, c.change)
			good := out.Kind == job.Succeeded
			if good != c.works || !good && (!out.Retryable || !out.Down || out.Unknown) || !strings.Contains(out.Message, c.says) {
				t.Errorf("outcome %+v; want it to work: %t, saying %q", out, c.works, c.says)
			}
		})
	}
}
