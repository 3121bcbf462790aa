package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// Load reads the settings from flags (see Flags), the environment (see os.Environ) and the file that one of them names.
func Load(flags *pflag.FlagSet, environ []string) (*Values, error) {
	set, err := flagLayer(flags)
	if err != nil {
		return nil, err
	}
	environment, warnings, err := envLayer(environ)
	if err != nil {
		return nil, err
	}
	others, ignored, err := standard(environ)
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, ignored...)
	layers := []layer{others, environment, set}
	name, err := flags.GetString(FileKey)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = variable(environ, envName(FileKey))
	}
	var doc *document
	if name != "" {
		if doc, err = readDocument(name); err != nil {
			return nil, err
		}
	}
	v, err := merge(doc, layers)
	if err != nil {
		return nil, err
	}
	v.Warnings = append(warnings, v.Warnings...)
	return v, nil
}

// Default returns the defaults.
func Default() Config {
	v, err := merge(nil, nil)
	if err != nil {
		panic(err) //nolint:forbidigo // a rejected default is a mistake in the declaration
	}
	return v.Config
}

// LoadFile reads the settings of one file.
func LoadFile(name string) (*Values, error) {
	doc, err := readDocument(name)
	if err != nil {
		return nil, err
	}
	return merge(doc, nil)
}

func variable(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// merge combines layers, the strongest last, and parses the values.
func merge(doc *document, layers []layer) (*Values, error) {
	v := &Values{sources: map[string]Source{}}
	var bad problems
	if doc != nil {
		file, err := newLayer(doc, doc.source)
		if err != nil {
			return nil, err
		}
		weak := 0
		for weak < len(layers) && layers[weak].weak {
			weak++
		}
		layers, bad = slices.Insert(slices.Clone(layers), weak, file), doc.bad
	}
	merged := koanf.New(".")
	for _, l := range layers {
		if err := merged.Merge(l.Koanf); err != nil {
			return nil, err
		}
		for _, key := range l.Keys() {
			v.sources[key] = l.source(key)
		}
	}
	settings := reflect.ValueOf(&v.Config).Elem()
	for _, f := range fields {
		text := f.fallback
		if merged.Exists(f.key) {
			text = merged.String(f.key)
		}
		value, ok := f.parse(text)
		if !ok {
			bad = append(bad, f.refuse(text, v.Source(f.key)))
			continue
		}
		settings.FieldByIndex(f.index).Set(value)
	}
	if len(bad) > 0 {
		return nil, bad.err()
	}
	if err := v.readFiles(layers); err != nil {
		return nil, err
	}
	return v, v.check()
}

// refuse explains why a value is not accepted. It does not repeat a secret.
func (f *field) refuse(text string, from Source) string {
	if f.hidden() {
		return fmt.Sprintf("%s: it cannot be read; want %s (%s)", f.key, f.accepted(), from)
	}
	if f.secret {
		return fmt.Sprintf(
			"%s: it cannot be read; want %s, with the password, if any, "+
				"before the @ and special characters in it as %%XX (%s)",
			f.key, f.accepted(), from,
		)
	}
	if f.form == "path" { // the value is probably the URL itself
		return fmt.Sprintf("%s: want %s (%s)", f.key, f.accepted(), from)
	}
	if len(text) > 60 {
		text = text[:60] + "…"
	}
	return fmt.Sprintf("%s: %q is not accepted; want %s (%s)", f.key, text, f.accepted(), from)
}

// Source is where a value came from.
func (v *Values) Source(key string) Source {
	if s, ok := v.sources[key]; ok {
		return s
	}
	return Source{Kind: "default"}
}

const urlKey, urlFileKey = "database_url", "database_url_file"

// readFiles reads the settings that can be in a file of their own, unless a stronger source has the value itself.
func (v *Values) readFiles(layers []layer) error {
	settings := reflect.ValueOf(&v.Config).Elem()
	for _, key := range []string{
		urlKey, "secrets.keyset", "oidc.client_secret", "tracing.headers", "archive.access_key", "archive.secret_key",
	} {
		value, _ := lookup(key)
		file, _ := lookup(key + "_file")
		name := settings.FieldByIndex(file.index).String()
		named, err := namesFile(layers, key, file.key)
		if err != nil {
			return err
		}
		if name == "" || !named {
			continue
		}
		from := v.Source(file.key)
		data, err := readBounded(name)
		if err != nil {
			return problems{fmt.Sprintf("%s: %s (%s)", file.key, err, from)}.err()
		}
		v.sources[key] = Source{Kind: "file", Name: name + ", named by " + from.String()}
		text := strings.TrimSpace(string(data))
		if _, ok := value.parse(text); !ok || text == "" {
			return problems{value.refuse(text, v.sources[key])}.err()
		}
		settings.FieldByIndex(value.index).SetString(text)
	}
	return nil
}

// namesFile reports whether the strongest source with either the value or its file has the file.
func namesFile(layers []layer, key, file string) (bool, error) {
	for i := len(layers) - 1; i >= 0; i-- {
		byValue, byFile := layers[i].Exists(key), layers[i].Exists(file)
		if byValue && byFile {
			return false, problems{fmt.Sprintf("%s and %s are both set (%s, %s); set one", key, file,
				layers[i].source(key), layers[i].source(file))}.err()
		}
		if byValue || byFile {
			return byFile, nil
		}
	}
	return false, nil
}

// check checks settings together. It rejects what cannot work and warns about what is probably a mistake.
func (v *Values) check() error {
	if v.LookAhead < 2*v.SessionTTL {
		return problems{fmt.Sprintf("look_ahead (%s, %s) must be at least twice session_ttl (%s, %s): "+
			"the runs of a node that dies must be planned before another takes over, or they are late",
			v.LookAhead, v.Source("look_ahead"), v.SessionTTL, v.Source("session_ttl"))}.err()
	}
	for _, check := range []func() error{v.CheckListen, v.OIDC.check, v.Archive.check} {
		if err := check(); err != nil {
			return problems{err.Error()}.err()
		}
	}
	warn := func(format string, args ...any) { v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...)) }
	if v.Drain < time.Second {
		warn("drain is %s: attempts under way are cut off at a stop and delivered again", v.Drain)
	}
	switch {
	case v.MetricsListen == "" && !Loopback(v.Listen):
		warn(
			"metrics are not served: listen is %s, and all who reach it could read the names of namespaces and queues "+
				"in them without a key; set metrics_listen to an address inside a private network",
			v.Listen,
		)
	case v.MetricsListen != "" && !Loopback(v.MetricsListen):
		warn(
			"metrics_listen is %s: all who reach it can read the metrics without a key; "+
				"keep the address inside a private network",
			v.MetricsListen,
		)
	}
	if v.Tracing.Headers != "" && inClear(v.Tracing.Endpoint) {
		warn("tracing.endpoint leads to another machine without TLS, and tracing.headers would be sent to it in clear text; " +
			"use https")
	}
	v.warnPassword(warn)
	v.warnKeyset(warn)
	return nil
}

// warnPassword warns about a password that others can read. It does not warn about mounted secrets, which are often
// readable by everyone inside their container.
func (v *Values) warnPassword(warn func(format string, args ...any)) {
	u, err := url.Parse(v.DatabaseURL)
	if err != nil {
		return
	}
	if _, ok := u.User.Password(); !ok {
		return
	}
	advice := fmt.Sprintf("use %s or %s", envName(urlKey), envName(urlFileKey))
	switch from := v.Source(urlKey); {
	case from.Kind == "flag":
		warn("the database's password is on the command line, where every user of this machine can read it; %s", advice)
	case from.path != "":
		if info, err := os.Stat(from.path); err == nil && info.Mode().Perm()&0o004 != 0 {
			warn("the database's password is in %s, which every user of this machine can read; chmod o-r it, or %s",
				from.path, advice)
		}
	}
}

// warnKeyset warns about a keyset that others can read. A group may read it if that is how the node gets it: the file is of
// another user, such as a mounted secret, or root gave it to the group of the nodes.
func (v *Values) warnKeyset(warn func(format string, args ...any)) {
	const key = "secrets.keyset"
	if v.Secrets.Keyset == "" {
		return
	}
	from := v.Source(key)
	path, own := from.path, false
	switch {
	case from.Kind == "flag":
		warn("the keyset for secrets is on the command line, where every user of this machine can read it; use %s or %s",
			envName(key), envName(key+"_file"))
		return
	case path == "" && from.Kind == "file":
		path, own = v.Secrets.KeysetFile, true
	}
	info, err := os.Stat(path)
	if err != nil {
		return // it is in the environment
	}
	mode := info.Mode().Perm()
	if mode&0o004 != 0 || mode&0o040 != 0 && own && isOurs(info) {
		warn("the keyset for secrets is in %s, which other users of this machine can read; let only the user or the group "+
			"of the nodes read it: chmod 600, or with that group chmod 640", path)
	}
}

// CheckListen rejects settings that would send keys over a network in clear text.
func (c *Config) CheckListen() error {
	switch tls := c.TLSCert != ""; {
	case tls != (c.TLSKey != ""):
		return errors.New("tls_cert and tls_key belong together; set both or none")
	case tls || c.InsecureListen || Loopback(c.Listen):
		return nil
	}
	return fmt.Errorf(
		"listen is %s, which others can reach, and there is no TLS: keys could be read on their way; "+
			"set tls_cert and tls_key, or listen on 127.0.0.1, or, if a proxy in front ends TLS, "+
			"set insecure_listen: true",
		c.Listen,
	)
}

// inClear reports whether requests to a URL would cross a network without TLS.
func inClear(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "http" && !Loopback(net.JoinHostPort(u.Hostname(), "0"))
}

// Loopback reports whether only this machine can reach the address.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
