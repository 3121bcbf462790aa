// Package config has the settings of an operator, and where each value came from.
//
// A setting is declared once, as a field of [Config] with its tags and a line in help.go. Its name in the file, its
// environment variable, its flag, default, bounds, help, `config example` and docs/reference/configuration.md all come
// from there.
//
//	flag  >  environment  >  file  >  standard variables of OpenTelemetry  >  default
package config

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// Config has all settings. The tags of a field:
//
//	key      name in the file; the flag and the environment variable follow from it
//	default  as a user would write it; without one the setting is empty
//	min, max bounds, both included, as a user would write them
//	oneof    the values that are accepted
//	form     what a string must be: url, web, path, paths, address, destinations, allowed, keyset, issuer, hidden, grants,
//	         ratio, sampler, headers, pairs, template, archive or line
//	secret   its value is printed without secrets
type Config struct {
	DatabaseURL      string        `key:"database_url" form:"url" secret:"true"`
	DatabaseURLFile  string        `key:"database_url_file" form:"path"`
	InsecureDatabase bool          `key:"insecure_database" default:"false" oneof:"true,false"`
	Listen           string        `key:"listen" default:"127.0.0.1:8420" form:"address"`
	MetricsListen    string        `key:"metrics_listen" form:"address"`
	TLSCert          string        `key:"tls_cert" form:"path"`
	TLSKey           string        `key:"tls_key" form:"path"`
	InsecureListen   bool          `key:"insecure_listen" default:"false" oneof:"true,false"`
	Name             string        `key:"name" form:"line"`
	Slots            int           `key:"slots" default:"1000" min:"1" max:"100000"`
	Connections      int32         `key:"connections" default:"16" min:"4" max:"1000"`
	KeepHistory      time.Duration `key:"keep_history" default:"30d" min:"1d" max:"3660d"`
	Drain            time.Duration `key:"drain" default:"30s" min:"0s" max:"1h"`
	WaitForSchema    time.Duration `key:"wait_for_schema" default:"0s" min:"0s" max:"1d"`
	LookAhead        time.Duration `key:"look_ahead" default:"1m" min:"5s" max:"1h"`
	SessionTTL       time.Duration `key:"session_ttl" default:"5s" min:"3s" max:"1m"`
	WorkerTTL        time.Duration `key:"worker_ttl" default:"15s" min:"3s" max:"10m"`
	Canary           bool          `key:"canary" default:"true" oneof:"true,false"`
	Targets          Targets       `key:"targets"`
	Secrets          Secrets       `key:"secrets"`
	API              API           `key:"api"`
	OIDC             OIDC          `key:"oidc"`
	Command          Command       `key:"command"`
	Tracing          Tracing       `key:"tracing"`
	Archive          Archive       `key:"archive"`
	Log              Log           `key:"log"`
}

// Targets says where runs may go. The settings are per node, and should be the same on all nodes.
type Targets struct {
	Allow   string `key:"allow" form:"allowed"`
	Deny    string `key:"deny" form:"destinations"`
	PerHost int    `key:"per_host" default:"0" min:"0" max:"100000"`

	SecretsInClear string `key:"secrets_in_clear" default:"warn" oneof:"warn,refuse"`
}

// Refuse is the other value of the setting targets.secrets_in_clear.
const Refuse = "refuse"

// Allowed returns the entries of the setting allow.
func (t Targets) Allowed() []string { return splitList(t.Allow) }

// Denied returns the entries of the setting deny.
func (t Targets) Denied() []string { return splitList(t.Deny) }

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// Secrets has the keys that encrypt the secrets of users.
type Secrets struct {
	Keyset     string `key:"keyset" form:"keyset" secret:"true"`
	KeysetFile string `key:"keyset_file" form:"path"`
}

// API has the limits of the API, per node.
type API struct {
	URL         string `key:"url" form:"web"`
	KeyRate     int    `key:"key_rate" default:"1000" min:"1" max:"1000000"`
	KeyBurst    int    `key:"key_burst" default:"2000" min:"1" max:"1000000"`
	Connections int32  `key:"connections" default:"8" min:"1" max:"1000"`
	Requests    int    `key:"requests" default:"200" min:"1" max:"100000"`
}

// OIDC is the identity provider through which people log in to the web UI. The settings are per node, and should be the
// same on all nodes.
type OIDC struct {
	Issuer           string `key:"issuer" form:"issuer"`
	Name             string `key:"name" default:"single sign-on" form:"line"`
	ClientID         string `key:"client_id" form:"line"`
	ClientSecret     string `key:"client_secret" form:"hidden" secret:"true"`
	ClientSecretFile string `key:"client_secret_file" form:"path"`
	Scopes           string `key:"scopes" default:"openid profile email" form:"line"`
	NameClaim        string `key:"name_claim" default:"email" form:"line"`
	GroupsClaim      string `key:"groups_claim" default:"groups" form:"line"`
	Roles            string `key:"roles" form:"grants"`
}

// check rejects a provider through which no login could work.
func (o OIDC) check() error {
	var missing []string
	for key, value := range map[string]string{"oidc.issuer": o.Issuer, "oidc.client_id": o.ClientID, "oidc.roles": o.Roles} {
		if value == "" {
			missing = append(missing, key)
		}
	}
	slices.Sort(missing)
	if len(missing) == 0 || len(missing) == 3 && o.ClientSecret == "" {
		return nil
	}
	return errors.New("for the login through an identity provider, set also " + strings.Join(missing, " and "))
}

// Command says what the commands of jobs may do on this node.
type Command struct {
	Enabled  bool   `key:"enabled" default:"false" oneof:"true,false"`
	Programs string `key:"programs" form:"programs"`

	Paths string `key:"paths" default:"/usr:/bin:/sbin:/lib:/lib64:/etc/alternatives:/etc/ld.so.cache:/etc/ssl:/etc/localtime" form:"paths"`

	Network         bool   `key:"network" default:"false" oneof:"true,false"`
	Slots           int    `key:"slots" default:"16" min:"1" max:"1000"`
	Memory          int    `key:"memory_mb" default:"256" min:"16" max:"1000000"`
	Processes       int    `key:"processes" default:"64" min:"1" max:"10000"`
	Scratch         int    `key:"scratch_mb" default:"64" min:"1" max:"100000"`
	User            int    `key:"user" default:"65534" min:"1" max:"4294967294"`
	Bubblewrap      string `key:"bubblewrap" default:"bwrap" form:"path"`
	ContainerSocket string `key:"container_socket" form:"path"`
	Images          string `key:"images" form:"line"`
}

// Tracing says where spans go, and of which runs. The settings are per node, and should be the same on all nodes. The
// standard variables of OpenTelemetry set them too: see standard.
type Tracing struct {
	Endpoint    string        `key:"endpoint" form:"web"`
	Headers     string        `key:"headers" form:"headers" secret:"true"`
	HeadersFile string        `key:"headers_file" form:"path"`
	CAFile      string        `key:"ca_file" form:"path"`
	Compression string        `key:"compression" default:"gzip" oneof:"gzip,none"`
	Timeout     time.Duration `key:"timeout" default:"10s" min:"100ms" max:"1m"`
	Sampler     string        `key:"sampler" default:"parentbased_traceidratio" form:"sampler"`
	Ratio       string        `key:"ratio" default:"0.01" form:"ratio"`
	Late        time.Duration `key:"late" default:"1s" min:"1ms" max:"1d"`
	Queue       int           `key:"queue" default:"8192" min:"100" max:"100000"`
	Service     string        `key:"service" default:"belfry" form:"line"`
	Resource    string        `key:"resource" form:"pairs"`
	URL         string        `key:"url" form:"template"`
}

// Log says what is logged, and how.
type Log struct {
	Level  string `key:"level" default:"info" oneof:"debug,info,warn,error"`
	Format string `key:"format" default:"text" oneof:"text,json"`
}

// FileKey is the flag that names the file and, with the prefix, the environment variable.
const FileKey = "config"

// Values are the settings and where they came from.
type Values struct {
	Config
	sources map[string]Source
	// Warnings are about settings that are allowed but probably mistakes.
	Warnings []string
}

// ErrNoDatabase says that the database is not set.
var ErrNoDatabase = errors.New("no database; pass --config FILE or --database-url URL, or set " + envName("database_url") +
	", for example to postgres://belfry@127.0.0.1:5432/belfry")

// problems is everything that is wrong, so that the user can fix it together.
type problems []string

func (p problems) err() error {
	switch len(p) {
	case 0:
		return nil
	case 1:
		return errors.New("wrong configuration: " + p[0])
	default:
		return errors.New("wrong configuration:\n  " + strings.Join(p, "\n  "))
	}
}
