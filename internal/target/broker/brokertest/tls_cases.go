package brokertest

import (
	"maps"
	"strings"
	"testing"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

type object = map[string]any

// tlsCase is a delivery with TLS settings and a login, and its expected outcome.
type tlsCase struct {
	name     string
	at       Endpoint
	also     string // another server
	tls      any
	password string          // empty: the right one
	key      string          // the file of the client's key
	want     job.OutcomeKind // 0: job.Failed
	retry    bool
	says     string
}

// Run runs the cases.
func (s *Secured) Run(t *testing.T) {
	for _, c := range s.cases(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s.check(t, &c)
		})
	}
}

func (s *Secured) cases(t *testing.T) []tlsCase {
	t.Helper()
	ca := s.PEM(t, "ca", Certificate)
	client := s.PEM(t, "client", Certificate)
	elsewhere := Endpoint{Address: NewProxy(t, s.Address).Address()}
	unsecured := "tls is not set"
	if s.SelfSecuring {
		unsecured = "tls.ca"
	}
	return []tlsCase{
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
	}
}

// check delivers and compares the outcome.
func (s *Secured) check(t *testing.T, c *tlsCase) {
	t.Helper()
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
}
