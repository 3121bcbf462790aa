// Package config is what an operator can set, and where each value came from.
//
// A setting is declared once: a field of [Config] with its tags. Its name in the
// file, its environment variable, its flag, default, bounds, help, `config
// example` and docs/reference/configuration.md all come from there.
//
//	flag  >  environment  >  file  >  default
package config

import (
	"errors"
	"strings"
	"time"
)

// Config is all settings. The tags of a field:
//
//	key      name in the file; the flag and the environment variable follow from it
//	default  as a user would write it; without one the setting is empty
//	min, max bounds, both included, as a user would write them
//	oneof    the values that are accepted
//	form     what a text must be: url, path, address or line
//	secret   its value is shown without what is secret in it
//	help     one line
type Config struct {
	DatabaseURL     string        `key:"database_url" form:"url" secret:"true" help:"PostgreSQL, as postgres://user@host:port/database"`
	DatabaseURLFile string        `key:"database_url_file" form:"path" help:"file with the database URL, such as a mounted secret, in place of database_url"`
	Listen          string        `key:"listen" default:"127.0.0.1:8420" form:"address" help:"address of the API, health and metrics; the latter two ask for no key"`
	MetricsListen   string        `key:"metrics_listen" form:"address" help:"another address for metrics, which tell the names of namespaces and queues; empty is that of listen"`
	TLSCert         string        `key:"tls_cert" form:"path" help:"file with the certificate for listen and its chain, PEM; read again when it is renewed"`
	TLSKey          string        `key:"tls_key" form:"path" help:"file with the key of tls_cert, PEM"`
	InsecureListen  bool          `key:"insecure_listen" default:"false" oneof:"true,false" help:"listen without TLS where others can reach it, for a proxy that ends TLS"`
	Name            string        `key:"name" form:"line" help:"name of this node, for people; empty is the host's name"`
	Slots           int           `key:"slots" default:"1000" min:"1" max:"100000" help:"attempts under way at once"`
	Connections     int32         `key:"connections" default:"16" min:"4" max:"1000" help:"connections to the database for running jobs, at most"`
	KeepHistory     time.Duration `key:"keep_history" default:"30d" min:"1d" max:"3660d" help:"how long finished runs are kept; the same on all nodes, as any of them drops what is older"`
	Drain           time.Duration `key:"drain" default:"30s" min:"0s" max:"1h" help:"how long a stop waits for attempts under way"`
	LookAhead       time.Duration `key:"look_ahead" default:"1m" min:"5s" max:"1h" help:"how far ahead of their time runs are planned"`
	SessionTTL      time.Duration `key:"session_ttl" default:"5s" min:"3s" max:"1m" help:"how long after its last sign of life a node counts as dead"`
	WorkerTTL       time.Duration `key:"worker_ttl" default:"15s" min:"3s" max:"10m" help:"how long after its last heartbeat a worker counts as dead; it is told to send three in that time"`
	API             API           `key:"api"`
	Log             Log           `key:"log"`
}

// API is how much the API takes. The limits are those of one node.
type API struct {
	KeyRate     int   `key:"key_rate" default:"1000" min:"1" max:"1000000" help:"requests of one key per second"`
	KeyBurst    int   `key:"key_burst" default:"2000" min:"1" max:"1000000" help:"requests of one key at once, after a time of rest"`
	Connections int32 `key:"connections" default:"8" min:"1" max:"1000" help:"connections to the database for the API, at most, beside those of connections: however much is asked of it, runs do not wait for them"`
	Requests    int   `key:"requests" default:"200" min:"1" max:"100000" help:"requests under way at once; more are told to come again"`
}

// Log is how the log is written.
type Log struct {
	Level  string `key:"level" default:"info" oneof:"debug,info,warn,error" help:"least level that is logged"`
	Format string `key:"format" default:"text" oneof:"text,json" help:"form of a log line"`
}

// FileKey is the flag, and with the prefix the environment variable, that names the file.
const FileKey = "config"

// Values are settings and where they came from.
type Values struct {
	Config
	sources map[string]Source
	// Warnings are what is allowed and probably not meant.
	Warnings []string
}

// ErrNoDatabase says that nobody said where the database is.
var ErrNoDatabase = errors.New("no database; set " + envName("database_url") + ", " + envName("database_url_file") +
	" or, in the file, database_url, for example postgres://belfry@127.0.0.1:5432/belfry")

// problems is everything that is wrong, so that it can be mended in one go.
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
