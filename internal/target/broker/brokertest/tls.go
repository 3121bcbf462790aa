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

func (s secrets) Secret(_ context.Context, _ uuid.UUID, name string) (access.Secret, error) {
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

// Run runs the cases.
func (s *Secured) Run(t *testing.T) {
	type object = map[string]any
	ca := s.PEM(t, "ca", Certificate)
	client := s.PEM(t, "client", Certificate)
	elsewhere := Endpoint{Address: NewProxy(t, s.Address).Address()}
	unsecured := "tls is not set"
	if s.SelfSecuring {
		unsecured = "tls.ca"
	}
	for _, c := range []struct {
		name     string
		at       Endpoint
		also     string // another server
		tls      any
		password string // empty: the right one
		key      string // the file of the client's key
		want     job.OutcomeKind
		retry    bool
		says     string
	}{
		{name: "right", at: s.Endpoint, tls: object{"ca": ca}, want: job.Succeeded},
		{
			name: "client's certificate", at: s.Mutual,
			tls: object{"ca": ca, "certificate": client, "key": object{"secret": "key"}}, key: "client",
			want: job.Succeeded,
		},
		{
			name: "other address with the right name", at: elsewhere, tls: object{"ca": ca, "server_name": "localhost"},
			want: job.Succeeded,
		},
		{
			name: "wrong password", at: s.Endpoint, tls: object{"ca": ca}, password: targettest.Secret,
			says: "not take these credentials",
		},
		{name: "authority of strangers", at: s.Endpoint, tls: true, says: "tls.ca"},
		{name: "wrong authority", at: s.Endpoint, tls: object{"ca": client}, says: "tls.ca"},
		{
			name: "wrong authority, and one that is down", at: s.Endpoint, also: "127.0.0.1:1",
			tls: object{"ca": client}, retry: true, says: "refused the connection",
		},
		{name: "one that is down", at: s.Endpoint, also: "127.0.0.1:1", tls: object{"ca": ca}, want: job.Succeeded},
		{name: "wrong name", at: elsewhere, tls: object{"ca": ca}, says: "tls.server_name"},
		{name: "expired", at: s.Expired, tls: object{"ca": ca}, retry: true, says: "expired"},
		{name: "TLS to one without", at: s.Plain, tls: object{"ca": ca}, retry: s.Plain.Silent, says: "not speak TLS"},
		{name: "no TLS to one with", at: s.Endpoint, says: unsecured},
		{name: "no client's certificate", at: s.Mutual, tls: object{"ca": ca}, says: "tls.certificate"},
		{
			name: "client's certificate has expired", at: s.Mutual,
			tls: object{"ca": ca, "certificate": s.PEM(t, "expired", Certificate), "key": object{"secret": "key"}},
			key: "expired", says: "tls.certificate",
		},
		{
			name: "key of another certificate", at: s.Mutual,
			tls: object{"ca": ca, "certificate": client, "key": object{"secret": "key"}}, key: "server",
			says: "do not fit each other",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			settings := object{"servers": []string{c.at.Address}}
			if c.also != "" {
				settings["servers"] = []string{c.also, c.at.Address}
			}
			stored := map[string]string{"password": s.Password}
			if c.password != "" {
				stored["password"] = c.password
			}
			if !c.at.Anonymous {
				maps.Copy(settings, s.Login)
				settings["user"], settings["password"] = s.User, object{"secret": "password"}
			}
			if c.key != "" {
				stored["key"] = s.PEM(t, c.key, Key)
			}
			if inner, ok := c.tls.(object); ok && c.at.Name != "" {
				inner["server_name"] = c.at.Name
			}
			if c.tls != nil {
				settings["tls"] = c.tls
			}
			if c.want == 0 {
				c.want = job.Failed
			}
			out := s.Deliver(t, settings, stored)
			if out.Kind != c.want || out.Retryable != c.retry || out.Unknown || !strings.Contains(out.Message, c.says) {
				t.Errorf("outcome %+v; want kind %d, retryable %t, saying %q", out, c.want, c.retry, c.says)
			}
		})
	}
}
