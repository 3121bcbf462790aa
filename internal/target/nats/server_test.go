package nats_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
)

// startSecured starts a server for one test and returns its address. A server accepts only one kind of login.
func startSecured(t *testing.T, s *brokertest.Secured, tls, config string) string {
	t.Helper()
	programs, err := filepath.Glob(filepath.Join(os.Getenv("BELFRY_TEST_SERVICES_DIR"), "tool", "nats-server@*",
		"nats-server"))
	require.NoError(t, err)
	require.NotEmpty(t, programs, "dev/services installs it")
	dir := t.TempDir()
	config += fmt.Sprintf(`
listen: "127.0.0.1:-1"
ports_file_dir: %q
jetstream: {store_dir: %q}
tls: {cert_file: %q, key_file: %q, ca_file: %q, %s}
`, dir, dir, s.Dir+"/server.pem", s.Dir+"/server.pem", s.Dir+"/ca.pem", tls)
	file := filepath.Join(dir, "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	server := exec.Command(programs[len(programs)-1], "--config", file)
	server.Stdout, server.Stderr = log, log
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		_ = log.Close()
	})
	var ports struct {
		NATS []string `json:"nats"`
	}
	if !eventually(func() bool {
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("nats-server_%d.ports", server.Process.Pid)))
		return err == nil && json.Unmarshal(text, &ports) == nil && len(ports.NATS) > 0
	}) {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("the server did not start:\n%s", text)
	}
	u, err := url.Parse(ports.NATS[0])
	require.NoError(t, err)
	return u.Host
}

func eventually(done func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 3000 {
		if done() {
			return true
		}
		<-tick.C
	}
	return false
}

// operator signs accounts, and an account signs its users: see NATS's documentation of decentralized JWT
// authentication.
type operator struct {
	t                    *testing.T
	key, system, account nkeys.KeyPair
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	o := &operator{t: t}
	var err error
	o.key, err = nkeys.CreateOperator()
	require.NoError(t, err)
	o.system, err = nkeys.CreateAccount()
	require.NoError(t, err)
	o.account, err = nkeys.CreateAccount()
	require.NoError(t, err)
	return o
}

func (o *operator) public(key nkeys.KeyPair) string {
	text, err := key.PublicKey()
	require.NoError(o.t, err)
	return text
}

// sign signs claims about a key.
func (o *operator) sign(by, about nkeys.KeyPair, claims object) string {
	claims["version"] = 2
	encode := func(v any) string {
		text, err := json.Marshal(v)
		require.NoError(o.t, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := encode(object{"typ": "JWT", "alg": "ed25519-nkey"}) + "." +
		encode(object{
			"jti": "test", "iat": 1767225600, "iss": o.public(by), "sub": o.public(about), "name": "test",
			"nats": claims,
		})
	signature, err := by.Sign([]byte(text))
	require.NoError(o.t, err)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// config returns the config of a server that trusts the operator.
func (o *operator) config() string {
	account := func(key nkeys.KeyPair, storage int) string {
		return o.sign(o.key, key, object{"type": "account", "limits": object{
			"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
			"conn": -1, "leaf": -1,
			"mem_storage": storage, "disk_storage": storage, "streams": storage, "consumer": storage,
		}})
	}
	return fmt.Sprintf("operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {%s: %q, %s: %q}\n",
		o.sign(o.key, o.key, object{"type": "operator"}),
		o.public(o.system), o.public(o.system), account(o.system, 0), o.public(o.account), account(o.account, -1))
}

// credentials creates a user of an account and returns the text of its .creds file.
func (o *operator) credentials(account nkeys.KeyPair) string {
	user, err := nkeys.CreateUser()
	require.NoError(o.t, err)
	seed, err := user.Seed()
	require.NoError(o.t, err)
	token := o.sign(account, user,
		object{"type": "user", "pub": object{}, "sub": object{}, "subs": -1, "data": -1, "payload": -1})
	return fmt.Sprintf("-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n"+
		"-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n", token, seed)
}
