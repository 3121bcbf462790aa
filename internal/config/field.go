package config

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

const envPrefix = "BELFRY_"

// field is one setting as declared.
type field struct {
	key                      string
	index                    []int // of the field in Config
	kind                     reflect.Type
	fallback, min, max, form string
	oneof                    []string
	secret                   bool
	help                     string
}

var durationType = reflect.TypeFor[time.Duration]()

// fields are all settings, in the order of their declaration.
var fields = declared(reflect.TypeFor[Config](), "", nil)

func declared(t reflect.Type, prefix string, index []int) (out []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		key, at := prefix+f.Tag.Get("key"), append(slices.Clone(index), i)
		if f.Type.Kind() == reflect.Struct {
			out = append(out, declared(f.Type, key+".", at)...)
			continue
		}
		d := field{
			key: key, index: at, kind: f.Type,
			fallback: f.Tag.Get("default"), min: f.Tag.Get("min"), max: f.Tag.Get("max"),
			form: f.Tag.Get("form"), secret: f.Tag.Get("secret") != "", help: help[key],
		}
		if choices := f.Tag.Get("oneof"); choices != "" {
			d.oneof = strings.Split(choices, ",")
		}
		out = append(out, d)
	}
	return out
}

func lookup(key string) (field, bool) {
	i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
	if i < 0 {
		return field{}, false
	}
	return fields[i], true
}

func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func flagName(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }

func (f *field) env() string  { return envName(f.key) }
func (f *field) flag() string { return flagName(f.key) }

// typeName is what users call the type.
func (f *field) typeName() string {
	switch {
	case f.kind == durationType:
		return "duration"
	case f.kind.Kind() == reflect.String:
		return "text"
	case f.kind.Kind() == reflect.Bool:
		return "bool"
	default:
		return "number"
	}
}

// accepted says which values are accepted.
func (f *field) accepted() string {
	switch {
	case len(f.oneof) > 0:
		return strings.Join(f.oneof, ", ")
	case f.min != "" && f.kind == durationType:
		return fmt.Sprintf("a duration from %s to %s", f.min, f.max)
	case f.min != "":
		return fmt.Sprintf("a whole number from %s to %s", f.min, f.max)
	}
	return map[string]string{
		"url":          "a URL like postgres://user@host:port/database",
		"web":          "a URL like https://belfry.example.com",
		"path":         "the path of a file",
		"paths":        "absolute paths other than / with : between them",
		"programs":     "absolute paths other than / with : between them, each with NAMESPACE= before it or not",
		"address":      "host:port, for example 127.0.0.1:8420",
		"keyset":       "what belfry secret keyset new prints",
		"destinations": "networks like 10.0.0.0/8 and host:port like hooks.internal:443",
		"allowed":      "networks like 10.0.0.0/8 and host:port like hooks.internal:443, each with NAMESPACE= before it or not",
		"issuer":       "a URL like https://login.example.com, without TLS only on this machine",
		"hidden":       "up to 1,000 characters on one line",
		"grants":       "entries like admins = default:admin",
		"ratio":        "a number from 0 to 1",
		"sampler":      strings.Join(samplers, ", "),
		"headers":      "entries like api-key=SECRET with commas between them",
		"pairs":        "entries like deployment.environment.name=production with commas between them",
		"template":     "a URL with {trace_id} in it, like https://traces.example.com/trace/{trace_id}",
		"archive":      "a URL like https://s3.example.com/bucket/prefix or file:///mnt/archive",
		"line":         "up to 200 characters on one line",
	}[f.form]
}

// parse reads a value. It returns false if the value is not accepted.
func (f *field) parse(text string) (v reflect.Value, ok bool) {
	v = reflect.New(f.kind).Elem()
	if f.kind.Kind() == reflect.String {
		v.SetString(text)
		return v, f.formOK(text)
	}
	if f.kind.Kind() == reflect.Bool {
		v.SetBool(text == "true")
		return v, f.formOK(text)
	}
	n, ok := f.number(text)
	if !ok {
		return v, false
	}
	v.SetInt(n)
	if least, ok := f.number(f.min); ok && n < least {
		return v, false
	}
	if most, ok := f.number(f.max); ok && n > most {
		return v, false
	}
	return v, true
}

func (f *field) number(text string) (int64, bool) {
	if f.kind == durationType {
		var d job.Duration
		err := d.UnmarshalText([]byte(text))
		return int64(d), err == nil
	}
	n, err := strconv.ParseInt(text, 10, f.kind.Bits())
	return n, err == nil
}

func (f *field) formOK(text string) bool {
	switch {
	case len(f.oneof) > 0:
		return slices.Contains(f.oneof, text)
	case text == "":
		return f.fallback == "" // unset
	case f.form == "url":
		return urlOK(text)
	case f.form == "web":
		u, err := url.Parse(text)
		return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil &&
			u.RawQuery == "" && !strings.HasSuffix(text, "/")
	case slices.Contains([]string{"ratio", "sampler", "headers", "pairs", "template"}, f.form):
		return tracingOK(f.form, text)
	case f.form == "archive":
		return archiveOK(text)
	case f.form == "issuer":
		return issuerOK(text)
	case f.form == "hidden":
		return len(text) <= 1000 && !strings.ContainsFunc(text, unicode.IsControl)
	case f.form == "grants":
		grants, err := access.ParseGrants(text)
		return err == nil && len(grants) > 0 && len(text) <= maxGrants
	case f.form == "keyset":
		return json.Valid([]byte(text))
	case f.form == "path":
		return !strings.Contains(text, "://") && !strings.ContainsFunc(text, unicode.IsControl)
	case f.form == "paths", f.form == "programs":
		return !strings.ContainsFunc(text, unicode.IsControl) &&
			!slices.ContainsFunc(strings.Split(text, ":"), func(p string) bool {
				namespace, rest, ok := strings.Cut(p, "=")
				if f.form == "programs" && ok && access.ValidateNamespace(namespace) == nil {
					p = rest
				}
				return !path.IsAbs(p) || path.Clean(p) == "/"
			})
	case f.form == "address":
		return addressOK(text)
	case f.form == "destinations", f.form == "allowed":
		return !slices.ContainsFunc(splitList(text), func(destination string) bool {
			if namespace, rest, ok := strings.Cut(destination, "="); ok {
				if f.form != "allowed" || access.ValidateNamespace(namespace) != nil || strings.Contains(rest, "=") {
					return true
				}
				destination = rest
			}
			_, err := netip.ParsePrefix(destination)
			return destination != "public" && err != nil && (!addressOK(destination) || destination[0] == ':')
		})
	default:
		return len(text) <= 200 && !strings.ContainsFunc(text, unicode.IsControl)
	}
}

// maxGrants bounds the text of grants.
const maxGrants = 64 << 10

// issuerOK accepts a trailing slash, which some providers have in their names.
func issuerOK(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(text) > 1000 {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && !inClear(text)
}

func addressOK(text string) bool {
	_, port, err := net.SplitHostPort(text)
	_, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil
}

// urlOK rejects the form with key=value pairs and passwords among the options: only a password before the @ can be
// hidden reliably.
func urlOK(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") && u.Opaque == "" &&
		!u.Query().Has("password") && !u.Query().Has("sslpassword")
}

// hidden reports whether no part of the value may be printed.
func (f *field) hidden() bool { return f.form == "keyset" || f.form == "hidden" || f.form == "headers" }

// show is a value as a user would write it, without secrets.
func (f *field) show(v reflect.Value) string {
	switch {
	case f.kind == durationType:
		return job.Duration(v.Int()).String()
	case f.kind.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case f.kind.Kind() != reflect.String:
		return strconv.FormatInt(v.Int(), 10)
	case f.hidden() && v.String() != "":
		return "(hidden)"
	case f.secret:
		return Redact(v.String())
	}
	return v.String()
}

// Redact removes the password from a database URL, and every option that may be secret.
func Redact(text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || !urlOK(text) {
		return "(hidden)"
	}
	shown := url.Values{}
	for _, option := range []string{"host", "port", "sslmode"} {
		if q := u.Query(); q.Has(option) {
			shown.Set(option, q.Get(option))
		}
	}
	u.RawQuery, u.Fragment, u.RawFragment = shown.Encode(), "", ""
	return u.Redacted()
}
