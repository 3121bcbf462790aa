package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/belfry-dev/belfry/internal/config"
)

// load reads flags, environment and a file, each one a line or more.
func load(t *testing.T, file, environ, flags string) (*config.Values, error) {
	t.Helper()
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.Flags(set)
	args := strings.Fields(flags)
	if file != "" {
		args = append(args, "--config", write(t, "belfry.yaml", file))
	}
	require.NoError(t, set.Parse(args))
	return config.Load(set, strings.Split(environ, "\n"))
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// refusal is the error, without the directory of the test.
func refusal(t *testing.T, file, environ, flags string) string {
	t.Helper()
	_, err := load(t, file, environ, flags)
	require.Error(t, err)
	return strings.Join(strings.Fields(directory.ReplaceAllString(err.Error(), "belfry.yaml")), " ")
}

var directory = regexp.MustCompile(`[^\s(]*/belfry\.yaml`)

func TestStrength(t *testing.T) {
	t.Parallel()
	v, err := load(t, "slots: 1\nconnections: 5\ndrain: 1m\nlog: {level: debug}",
		"BELFRY_SLOTS=2\nBELFRY_CONNECTIONS=6\nBELFRY_NAME=", "--slots 3")
	require.NoError(t, err)
	want := config.Default()
	want.Slots, want.Connections, want.Drain, want.Log.Level = 3, 6, time.Minute, "debug"
	require.Equal(t, want, v.Config)
	require.Equal(t, "flag --slots", v.Source("slots").String())
	require.Equal(t, "environment BELFRY_CONNECTIONS", v.Source("connections").String())
	require.Regexp(t, `^file .*belfry\.yaml line 3$`, v.Source("drain").String())
	require.Regexp(t, `^file .*belfry\.yaml line 4$`, v.Source("log.level").String())
	require.Equal(t, "default", v.Source("name").String(), "an empty variable is none")
	require.Empty(t, v.Warnings)
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	require.Equal(t, config.Config{
		Listen: "127.0.0.1:8420", Slots: 1000, Connections: 16, KeepHistory: 30 * 24 * time.Hour,
		Drain:     30 * time.Second,
		LookAhead: time.Minute, SessionTTL: 5 * time.Second, WorkerTTL: 15 * time.Second,
		Canary: true, Targets: config.Targets{SecretsInClear: "warn"},
		API: config.API{KeyRate: 1000, KeyBurst: 2000, Connections: 8, Requests: 200},
		OIDC: config.OIDC{
			Name: "single sign-on", Scopes: "openid profile email", NameClaim: "email", GroupsClaim: "groups",
		},
		Archive: config.Archive{Region: "us-east-1", Rate: 20000, Disk: 20480},
		Log:     config.Log{Level: "info", Format: "text"},
		Tracing: config.Tracing{
			Compression: "gzip", Timeout: 10 * time.Second, Sampler: "parentbased_traceidratio", Ratio: "0.01",
			Late: time.Second, Queue: 8192, Service: "belfry",
		},
		Command: config.Command{
			Paths: "/usr:/bin:/sbin:/lib:/lib64:/etc/alternatives:/etc/ld.so.cache:/etc/ssl:/etc/localtime",
			Slots: 16, Memory: 256, Processes: 64, Scratch: 64, User: 65534, Bubblewrap: "bwrap",
		},
	}, config.Default())
}

func TestFileNamedByTheEnvironment(t *testing.T) {
	t.Parallel()
	v, err := load(t, "", "BELFRY_CONFIG="+write(t, "other.yaml", "# nothing set\nslots: 7\nname:\n"), "")
	require.NoError(t, err)
	require.Equal(t, 7, v.Slots)
	_, err = load(t, "", "BELFRY_CONFIG=/no/such/file", "")
	require.EqualError(t, err, "read the configuration file: open /no/such/file: no such file or directory")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ file, environ, flags, want string }{
		"unknown key": {
			"slots: 5\nkeep_histroy: 3d", "", "",
			"wrong configuration: keep_histroy: unknown setting; did you mean keep_history? (belfry.yaml line 2)",
		},
		"unknown in a part": {
			"log:\n  leval: info", "", "",
			"wrong configuration: log.leval: unknown setting; did you mean log.level? (belfry.yaml line 2)",
		},
		"like no key": {
			"password: x", "", "",
			"wrong configuration: password: unknown setting; belfry config example lists them all (belfry.yaml line 1)",
		},
		"twice": {
			"slots: 5\nslots: 6", "", "", "wrong configuration: slots: set twice, first on line 1 (belfry.yaml line 2)",
		},
		"a list": {"slots: [5]", "", "", "wrong configuration: slots: want one value (belfry.yaml line 1)"},
		"no part": {
			"log: info", "", "", "wrong configuration: log: want settings, each as name: value (belfry.yaml line 1)",
		},
		"no settings": {
			"just text", "", "",
			"wrong configuration: the file: want settings, each as name: value (belfry.yaml line 1)",
		},
		"two documents": {
			"slots: 1\n---\nslots: 2", "", "",
			"belfry.yaml has more than one document; remove what follows the line ---",
		},
		"below": {
			"", "BELFRY_SLOTS=0", "",
			`wrong configuration: slots: "0" is not accepted; want a whole number from 1 to 100000 (environment ` +
				`BELFRY_SLOTS)`,
		},
		"above": {
			"", "", "--connections 1001",
			`wrong configuration: connections: "1001" is not accepted; ` +
				`want a whole number from 4 to 1000 (flag --connections)`,
		},
		"overflow": {
			"", "", "--connections 4294967312",
			`wrong configuration: connections: "4294967312" is not accepted; ` +
				`want a whole number from 4 to 1000 (flag --connections)`,
		},
		"not whole": {
			"slots: 1e3", "", "",
			`wrong configuration: slots: "1e3" is not accepted; ` +
				`want a whole number from 1 to 100000 (file belfry.yaml line 1)`,
		},
		"no unit": {
			"drain: 30", "", "",
			`wrong configuration: drain: "30" is not accepted; want a duration from 0s to 1h (file belfry.yaml line 1)`,
		},
		"too short": {
			"keep_history: 23h", "", "",
			`wrong configuration: keep_history: "23h" is not accepted; ` +
				`want a duration from 1d to 3660d (file belfry.yaml line 1)`,
		},
		"choice": {
			"", "BELFRY_LOG_FORMAT=xml", "",
			`wrong configuration: log.format: "xml" is not accepted; want text, json (environment BELFRY_LOG_FORMAT)`,
		},
		"address": {
			"listen: 8420", "", "",
			`wrong configuration: listen: "8420" is not accepted; want host:port, ` +
				`for example 127.0.0.1:8420 (file belfry.yaml line 1)`,
		},
		"empty address": {
			"", "", "--listen=",
			`wrong configuration: listen: "" is not accepted; want host:port, ` +
				`for example 127.0.0.1:8420 (flag --listen)`,
		},
		"two lines": {
			`name: "a\nb"`, "", "",
			`wrong configuration: name: "a\nb" is not accepted; ` +
				`want up to 200 characters on one line (file belfry.yaml line 1)`,
		},
		"look ahead": {
			"", "", "--look-ahead 9s",
			"wrong configuration: look_ahead (9s, flag --look-ahead) must be at least twice session_ttl (5s, " +
				"default): the runs of a node that dies must be planned before another takes over, or they are late",
		},
		"in the clear": {
			"listen: 10.0.0.1:8420", "", "",
			"wrong configuration: listen is 10.0.0.1:8420, which others can reach, and there is no TLS: " +
				"keys could be read on their way; set tls_cert and tls_key, or listen on 127.0.0.1, or, " +
				"if a proxy in front ends TLS, set insecure_listen: true",
		},
		"half of TLS": {
			"", "BELFRY_TLS_CERT=c.pem", "",
			"wrong configuration: tls_cert and tls_key belong together; set both or none",
		},
		"yes": {
			"insecure_listen: yes", "", "",
			`wrong configuration: insecure_listen: "yes" is not accepted; want true, false (file belfry.yaml line 1)`,
		},
		"grants": {
			"oidc: {roles: admins = default:owner}", "", "",
			`wrong configuration: oidc.roles: "admins = default:owner" is not accepted; ` +
				`want entries like admins = default:admin (file belfry.yaml line 1)`,
		},
		"half of a provider": {
			"oidc: {issuer: https://login.example.com/, client_id: belfry}", "", "",
			"wrong configuration: for the login through an identity provider, set also oidc.roles",
		},
		"a provider in the clear": {
			"oidc: {issuer: http://login.example.com}", "", "",
			`wrong configuration: oidc.issuer: "http://login.example.com" is not accepted; ` +
				`want a URL like https://login.example.com, without TLS only on this machine (file belfry.yaml line 1)`,
		},
		"all at once": {
			"slots: 0\ndrain: 2h", "", "",
			`wrong configuration: slots: "0" is not accepted; want a whole number from 1 to 100000 (file belfry.yaml ` +
				`line 1) drain: "2h" is not accepted; want a duration from 0s to 1h (file belfry.yaml line 2)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, refusal(t, tc.file, tc.environ, tc.flags))
		})
	}
}

func TestNotYAML(t *testing.T) {
	t.Parallel()
	require.Equal(t, "belfry.yaml is not YAML: line 1: did not find expected node content",
		refusal(t, "slots: [", "", ""))
	_, err := config.LoadFile(write(t, "large.yaml", strings.Repeat("# large\n", 1<<17+1)))
	require.ErrorContains(t, err, "it is larger than 1 MB")
}

// TestPasswordIsNowhere writes a URL with a password wherever one can, right and wrong, and looks for it in all that is
// printed.
func TestPasswordIsNowhere(t *testing.T) {
	t.Parallel()
	const canary = "c4nary"
	for _, url := range []string{
		"postgres://belfry:c4nary@db/belfry",
		"postgres://belfry:c4nary@db/belfry?sslmode=require&options=-c%20x=c4nary#c4nary",
		"postgres://belfry:c4nary%zz@db/belfry", "postgres://belfry:c4nary:x@y@db:99999/belfry",
		"postgres://db/belfry?password=c4nary",
		"postgres://db/belfry?sslpassword=c4nary&sslkey=k", "host=db password=c4nary",
		"mysql://belfry:c4nary@db/belfry", "postgres:belfry:c4nary@db", "c4nary", ":c4nary@",
	} {
		var printed bytes.Buffer
		for _, sources := range [][3]string{
			{"database_url: '" + url + "'", "", ""},
			{"", "BELFRY_DATABASE_URL=" + url, ""},
			{"", "", "--database-url=" + strings.ReplaceAll(url, " ", "%20")},
			{"", "BELFRY_DATABASE_URL_FILE=" + write(t, "url", url+"\n"), ""},
			{"database_url:" + url, "", ""},
			{"slots: 5\ndatabase_url:" + url, "", ""},
			{"'" + url + "@db': 5", "", ""},
		} {
			v, err := load(t, sources[0], sources[1], sources[2])
			if err != nil {
				printed.WriteString(err.Error())
				continue
			}
			require.Equal(t, url, v.DatabaseURL)
			for _, output := range []string{"table", "json", "yaml"} {
				require.NoError(t, v.Show(&printed, output))
			}
			printed.WriteString(strings.Join(v.Warnings, "\n"))
		}
		require.NotEmpty(t, printed.String())
		require.NotContains(t, printed.String(), canary, "of %s", url)
	}
	_, err := load(t, "", "BELFRY_DATABASE_URL_FILE=postgres://belfry:c4nary@db/belfry", "")
	require.EqualError(t, err,
		"wrong configuration: database_url_file: want the path of a file (environment BELFRY_DATABASE_URL_FILE)")
	require.Equal(t, "postgres://belfry:xxxxx@db/belfry?sslmode=require",
		config.Redact("postgres://belfry:c4nary@db/belfry?sslmode=require&options=c4nary"))
}

func TestURLFile(t *testing.T) {
	t.Parallel()
	secret := write(t, "url", "postgres://belfry:secret@db/belfry\n")
	v, err := load(t, "database_url: postgres://other/belfry", "BELFRY_DATABASE_URL_FILE="+secret, "")
	require.NoError(t, err)
	require.Equal(t, "postgres://belfry:secret@db/belfry", v.DatabaseURL, "the stronger source wins")
	require.Equal(t, "file "+secret+", named by environment BELFRY_DATABASE_URL_FILE",
		v.Source("database_url").String())

	v, err = load(t, "database_url_file: "+secret, "BELFRY_DATABASE_URL=postgres://other/belfry", "")
	require.NoError(t, err)
	require.Equal(t, "postgres://other/belfry", v.DatabaseURL)

	_, err = load(t, "", "BELFRY_DATABASE_URL=postgres://a/b\nBELFRY_DATABASE_URL_FILE="+secret, "")
	require.EqualError(t, err,
		"wrong configuration: database_url and database_url_file are both set (environment BELFRY_DATABASE_URL, "+
			"environment BELFRY_DATABASE_URL_FILE); set one")
	_, err = load(t, "", "BELFRY_DATABASE_URL_FILE=/no/such", "")
	require.EqualError(t, err,
		"wrong configuration: database_url_file: open /no/such: "+
			"no such file or directory (environment BELFRY_DATABASE_URL_FILE)")
	_, err = load(t, "", "BELFRY_DATABASE_URL_FILE="+write(t, "empty", "\n"), "")
	require.ErrorContains(t, err, "database_url: it cannot be read")
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	readable := write(t, "readable.yaml", "database_url: postgres://belfry:secret@db/belfry")
	require.NoError(t, os.Chmod(readable, 0o644))
	keyset, withKeyset := write(t, "keyset.json", "{}"), write(t, "keyset.yaml", "secrets: {keyset: '{}'}")
	require.NoError(t, os.Chmod(keyset, 0o640))
	require.NoError(t, os.Chmod(withKeyset, 0o644))
	private := write(t, "private.json", "{}")
	require.NoError(t, os.Chmod(private, 0o600))
	others := func(path string) string {
		return "the keyset for secrets is in " + path + ", which other users of this machine can read; " +
			"let only the user or the group of the nodes read it: chmod 600, or with that group chmod 640"
	}
	forNodes := write(t, "nodes.json", "{}")
	require.NoError(t, os.Chmod(forNodes, 0o640))
	if os.Getuid() == 0 { // others cannot give files to the group of the nodes
		require.NoError(t, os.Chown(forNodes, 0, 65534))
	} else {
		require.NoError(t, os.Chmod(forNodes, 0o600))
	}
	for name, tc := range map[string]struct{ environ, flags, want string }{
		"open to all": {
			"", "--listen 0.0.0.0:8420 --insecure-listen",
			"metrics are not served: listen is 0.0.0.0:8420, and all who reach it could read the names of namespaces " +
				"and queues in them without a key; set metrics_listen to an address inside a private network",
		},
		"every interface": {
			"BELFRY_LISTEN=:8420", "--insecure-listen=true",
			"metrics are not served: listen is :8420, and all who reach it could read the names of namespaces and " +
				"queues in them without a key; set metrics_listen to an address inside a private network",
		},
		"TLS": {
			"BELFRY_LISTEN=:8420\nBELFRY_TLS_CERT=c.pem\nBELFRY_TLS_KEY=k.pem", "--metrics-listen 127.0.0.1:8421", "",
		},
		"open metrics": {
			"BELFRY_METRICS_LISTEN=:8421", "",
			"metrics_listen is :8421: all who reach it can read the metrics without a key; " +
				"keep the address inside a private network",
		},
		"no drain": {
			"BELFRY_DRAIN=0s", "", "drain is 0s: attempts under way are cut off at a stop and delivered again",
		},
		"on the command line": {
			"", "--database-url postgres://belfry:secret@db/belfry",
			"the database's password is on the command line, where every user of this machine can read it; " +
				"use BELFRY_DATABASE_URL or BELFRY_DATABASE_URL_FILE",
		},
		"readable": {
			"", "--config " + readable,
			"the database's password is in " + readable +
				", which every user of this machine can read; chmod o-r it, " +
				"or use BELFRY_DATABASE_URL or BELFRY_DATABASE_URL_FILE",
		},
		"keyset on the command line": {
			"", "--secrets-keyset {}",
			"the keyset for secrets is on the command line, where every user of this machine can read it; " +
				"use BELFRY_SECRETS_KEYSET or BELFRY_SECRETS_KEYSET_FILE",
		},
		"keyset for a group":          {"BELFRY_SECRETS_KEYSET_FILE=" + keyset, "", others(keyset)},
		"keyset in the configuration": {"", "--config " + withKeyset, others(withKeyset)},
		"keyset for the nodes' group": {"", "--secrets-keyset-file " + forNodes, ""},
		"keyset for this user":        {"", "--secrets-keyset-file " + private, ""},
		"keyset in the environment":   {"BELFRY_SECRETS_KEYSET={}", "", ""},
		"a token in the clear": {
			"BELFRY_TRACING_HEADERS=authorization=token", "--tracing-endpoint http://collector.example.com:4318/v1/traces",
			"tracing.endpoint leads to another machine without TLS, and tracing.headers would be sent to it in clear text; " +
				"use https",
		},
		"a token over TLS": {
			"BELFRY_TRACING_HEADERS=authorization=token", "--tracing-endpoint https://collector.example.com/v1/traces", "",
		},
		"traces without a token": {"", "--tracing-endpoint http://collector.example.com:4318/v1/traces", ""},
		"a slip": {
			"BELFRY_SLOT=5", "", "the environment variable BELFRY_SLOT is no setting; did you mean BELFRY_SLOTS?",
		},
		"of Kubernetes": {
			"BELFRY_PORT=tcp://10.0.0.1:8420\nBELFRY_SERVICE_HOST=10.0.0.1\nBELFRY_PORT_8420_TCP_ADDR=10.0.0.1", "", "",
		},
		"loopback": {"BELFRY_LISTEN=[::1]:0", "--database-url postgres://belfry@db/belfry", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := load(t, "", tc.environ, tc.flags)
			require.NoError(t, err)
			require.Equal(t, tc.want, strings.Join(v.Warnings, "\n"))
		})
	}
}

func TestExampleIsTheDefaults(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, config.Example(&out))
	v, err := config.LoadFile(write(t, "belfry.yaml", out.String()))
	require.NoError(t, err)
	require.Equal(t, config.Default(), v.Config)
	// And with each line that is commented out, none is unknown.
	v, err = config.LoadFile(write(t, "belfry.yaml",
		strings.NewReplacer("# database_url:", "database_url: postgres://db/b", "# name:",
			"name: n").Replace(out.String())))
	require.NoError(t, err)
	require.Equal(t, "n", v.Name)
	require.Equal(t, "postgres://db/b", v.DatabaseURL)
}

func TestShow(t *testing.T) {
	t.Parallel()
	v, err := load(t, "", "BELFRY_SLOTS=12\nBELFRY_KEEP_HISTORY=168h", "")
	require.NoError(t, err)
	var table, asJSON, asYAML bytes.Buffer
	require.NoError(t, v.Show(&table, "table"))
	require.Regexp(t, `(?m)^slots +12 +environment BELFRY_SLOTS$`, table.String())
	require.Regexp(t, `(?m)^keep_history +7d +environment BELFRY_KEEP_HISTORY$`, table.String())
	require.NoError(t, v.Show(&asJSON, "json"))
	require.NoError(t, v.Show(&asYAML, "yaml"))
	type shown struct {
		Value  any
		Source string
	}
	var one, other map[string]shown
	require.NoError(t, json.Unmarshal(asJSON.Bytes(), &one))
	require.NoError(t, yaml.Unmarshal(asYAML.Bytes(), &other))
	require.Equal(t, shown{12.0, "environment BELFRY_SLOTS"}, one["slots"])
	require.Equal(t, shown{12, "environment BELFRY_SLOTS"}, other["slots"])
	require.Len(t, other, len(one))
	require.EqualError(t, v.Show(&table, "xml"), "-o xml: use table, json or yaml")
}

// TestOIDC: a provider on this machine needs no TLS, and its secret is read from a file and never printed.
func TestOIDC(t *testing.T) {
	t.Parallel()
	secret := write(t, "secret", "c4nary\n")
	v, err := load(t, "oidc:\n  issuer: http://127.0.0.1:9000\n  client_id: belfry\n  client_secret_file: "+secret+
		"\n  roles: |\n    admins = default:admin\n    CN=dev,OU=x = other:viewer\n", "", "")
	require.NoError(t, err)
	require.Equal(t, "c4nary", v.OIDC.ClientSecret)
	var out bytes.Buffer
	for _, output := range []string{"table", "json", "yaml"} {
		require.NoError(t, v.Show(&out, output))
	}
	require.Contains(t, out.String(), "(hidden)")
	require.NotContains(t, out.String(), "c4nary")
	require.NotContains(t, refusal(t, "", "BELFRY_OIDC_CLIENT_SECRET=c4nary\tx", ""), "c4nary")
}

func TestTargetsAllow(t *testing.T) {
	t.Parallel()
	v, err := load(t, "", "", "--targets-allow 10.0.0.0/8,hooks.internal:443,public")
	require.NoError(t, err)
	require.Equal(t, []string{"10.0.0.0/8", "hooks.internal:443", "public"}, v.Targets.Allowed())
	require.Contains(t, refusal(t, "", "", "--targets-allow private"), "10.0.0.0/8")
	v, err = load(t, "", "", "--targets-allow billing=10.1.0.0/16,10.2.0.0/16,billing=hooks.internal:443")
	require.NoError(t, err)
	require.Equal(t, []string{"billing=10.1.0.0/16", "10.2.0.0/16", "billing=hooks.internal:443"}, v.Targets.Allowed())
	for _, wrong := range []string{"Billing=10.1.0.0/16", "=10.1.0.0/16", "b_=hooks.internal:443", "billing=private", "a=b=x:1"} {
		require.Contains(t, refusal(t, "", "", "--targets-allow "+wrong), "NAMESPACE=", wrong)
	}
	require.Contains(t, refusal(t, "", "", "--targets-deny billing=hooks.internal:443"), "10.0.0.0/8")
}
