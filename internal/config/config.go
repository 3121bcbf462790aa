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
//	form     what a text must be: url, web, path, paths, address, places, keyset or line
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
	Targets         Targets       `key:"targets"`
	Secrets         Secrets       `key:"secrets"`
	API             API           `key:"api"`
	Command         Command       `key:"command"`
	Log             Log           `key:"log"`
}

// Targets is where runs may go. The settings are those of one node, and belong on all of them alike.
type Targets struct {
	Allow   string `key:"allow" form:"places" help:"where targets may connect to beside the open internet, for example a private network; separated by commas"`
	PerHost int    `key:"per_host" default:"0" min:"0" max:"100000" help:"HTTP deliveries of one namespace to one host under way at once, from this node, at most; 0 is no limit but that of slots: a host may have two thirds of them"`
}

// Allowed is the setting allow, entry by entry.
func (t Targets) Allowed() []string {
	return strings.FieldsFunc(t.Allow, func(r rune) bool { return r == ',' || r == ' ' })
}

// Secrets is what the secrets of users are encrypted with.
type Secrets struct {
	Keyset     string `key:"keyset" form:"keyset" secret:"true" help:"keys that the secrets of targets are encrypted with, as belfry secret keyset makes them; the same on all nodes; empty is none"`
	KeysetFile string `key:"keyset_file" form:"path" help:"file with the keys, such as a mounted secret, in place of secrets.keyset"`
}

// API is how much the API takes. The limits are those of one node.
type API struct {
	URL         string `key:"url" form:"web" help:"where targets reach the API, to report on runs that they have accepted, for example https://belfry.example.com; empty is the address of listen"`
	KeyRate     int    `key:"key_rate" default:"1000" min:"1" max:"1000000" help:"requests of one key per second"`
	KeyBurst    int    `key:"key_burst" default:"2000" min:"1" max:"1000000" help:"requests of one key at once, after a time of rest"`
	Connections int32  `key:"connections" default:"8" min:"1" max:"1000" help:"connections to the database for the API, at most, beside those of connections: however much is asked of it, runs do not wait for them"`
	Requests    int    `key:"requests" default:"200" min:"1" max:"100000" help:"requests under way at once; more are told to come again"`
}

// Command is what commands may do that jobs run on this node.
type Command struct {
	Enabled         bool   `key:"enabled" default:"false" oneof:"true,false" help:"let jobs run commands on this node, in a sandbox; the same on all nodes, as any of them may get such a run"`
	Programs        string `key:"programs" form:"paths" help:"programs that jobs may run: files, and directories with all that is below them, with : between them"`
	Paths           string `key:"paths" default:"/usr:/bin:/sbin:/lib:/lib64:/etc/alternatives:/etc/ld.so.cache:/etc/ssl:/etc/localtime" form:"paths" help:"files and directories that commands see, read-only, beside the programs, with : between them; nothing secret"`
	Network         bool   `key:"network" default:"false" oneof:"true,false" help:"commands may ask for the network: all that this machine reaches, its own loopback too"`
	Slots           int    `key:"slots" default:"16" min:"1" max:"1000" help:"commands at once; those of jobs above it wait for their turn"`
	Memory          int    `key:"memory_mb" default:"256" min:"16" max:"1000000" help:"MB of memory of one command"`
	Processes       int    `key:"processes" default:"64" min:"1" max:"10000" help:"processes and threads of one command"`
	Scratch         int    `key:"scratch_mb" default:"64" min:"1" max:"100000" help:"MB that one command can write to /tmp, and as much to /dev/shm; they are memory, too"`
	User            int    `key:"user" default:"65534" min:"1" max:"4294967294" help:"number of the user that commands run as if the node is root; else they run as the node's user"`
	Bubblewrap      string `key:"bubblewrap" default:"bwrap" form:"path" help:"where bubblewrap is"`
	ContainerSocket string `key:"container_socket" form:"path" help:"socket of Docker or Podman for jobs that name an image, such as /run/podman/podman.sock; empty is none"`
	Images          string `key:"images" form:"line" help:"images that jobs may run, with commas between them; one that ends in * stands for all that begin so"`
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
