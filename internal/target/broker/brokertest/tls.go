package brokertest

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

// Secured is a real broker with TLS and logins.
type Secured struct {
	Kind     string
	New      func(broker.Options) targettest.Target
	Settings map[string]any // where messages go
	Login    map[string]any // settings of the login other than user and password

	Endpoint
	User, Password string
	Plain          Endpoint // without TLS
	Expired        Endpoint // has an expired certificate
	Mutual         Endpoint // requires a client certificate
	Dir            string   // of certificates
	// SelfSecuring says that the client uses TLS if the server requires it, even if tls is not set.
	SelfSecuring bool
}

// Endpoint is where a server listens.
type Endpoint struct {
	Address   string
	Name      string // server name; empty: the host of the address
	Anonymous bool   // it accepts no user
	Silent    bool   // it closes TLS connections without a word, like a server that is stopping
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
	password, _ := u.User.Password()
	return &Secured{
		Endpoint: Endpoint{Address: u.Host}, User: u.User.Username(), Password: password,
		Expired: Endpoint{Address: u.Host, Name: "expired.test"},
		Mutual:  Endpoint{Address: u.Host, Name: "mutual.test"},
		Dir:     filepath.Join(os.Getenv("BELFRY_TEST_SERVICES_DIR"), "run", service, "data", "tls"),
	}
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

// secrets maps names to values.
type secrets map[string]string

func (s secrets) Secret(_ context.Context, _ uuid.UUID, name string, _ access.SecretUse) (access.Secret, error) {
	value, ok := s[name]
	if !ok {
		return access.Secret{}, secret.ErrNone
	}
	return access.Secret{Values: []string{value}}, nil
}

// Deliver delivers with settings and checks that no secret appears in the outcome.
func (s *Secured) Deliver(t *testing.T, settings map[string]any, stored map[string]string) job.Outcome {
	t.Helper()
	config := maps.Clone(s.Settings)
	maps.Copy(config, settings)
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	target := s.New(broker.Options{Dialer: Guard(t, "127.0.0.0/8", "::1/128"), Secrets: secrets(stored)})
	defer target.Close()
	if err := target.Check(text); err != nil {
		t.Fatal(err)
	}
	out := target.Deliver(t.Context(), Attempt(s.Kind, string(text)))
	for name, value := range stored {
		for line := range strings.Lines(value) { // a key has many lines, and none may appear
			if line = strings.TrimSpace(line); line != "" && strings.Contains(out.Message, line) {
				t.Errorf("the message contains the secret %s: %s", name, out.Message)
			}
		}
	}
	return out
}
