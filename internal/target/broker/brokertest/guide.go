package brokertest

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/belfry-dev/belfry/internal/job"
)

// Guide delivers with each example of the guide that has tls. It replaces only the destination of messages
// and the certificates. stored are the secrets that examples name, and at returns the server of an example.
func (s *Secured) Guide(t *testing.T, stored map[string]string, at func(config map[string]any) Endpoint) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/guide/brokers.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i, block := range strings.Split(string(text), "```") {
		block, isJSON := strings.CutPrefix(block, "json\n")
		if i%2 == 0 || !isJSON {
			continue
		}
		var example struct {
			Kind   string         `json:"kind"`
			Config map[string]any `json:"config"`
		}
		if err := json.Unmarshal([]byte(block), &example); err != nil {
			t.Errorf("not JSON (%v): %s", err, block)
		}
		if example.Kind != s.Kind || example.Config["tls"] == nil {
			continue
		}
		found++
		s.adapt(t, example.Config, at(example.Config))
		if out := s.Deliver(t, example.Config, stored); out.Kind != job.Succeeded {
			t.Errorf("%s\n%+v", block, out)
		}
	}
	if found == 0 {
		t.Errorf("the guide has no example of %s with tls", s.Kind)
	}
}

// adapt changes an example so that it works with a real server.
func (s *Secured) adapt(t *testing.T, config map[string]any, to Endpoint) {
	t.Helper()
	for name := range s.Settings {
		delete(config, name) // Deliver adds them
	}
	config["servers"] = []string{to.Address}
	tls, ok := config["tls"].(map[string]any)
	if !ok { // true means the system's authorities, which do not include the test's
		tls = map[string]any{}
		config["tls"] = tls
	}
	tls["ca"] = s.PEM(t, "ca", Certificate)
	if tls["certificate"] != nil {
		tls["certificate"] = s.PEM(t, "client", Certificate)
	}
	if to.Name != "" {
		tls["server_name"] = to.Name
	}
}

// HasCertificate reports whether a config has a client certificate.
func HasCertificate(config map[string]any) bool {
	tls, ok := config["tls"].(map[string]any)
	return ok && tls["certificate"] != nil
}
