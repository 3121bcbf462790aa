package config

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/http/httpguts"

	koanfmaps "github.com/knadh/koanf/maps"
)

// maxPairs bounds a list of headers or attributes.
const maxPairs = 64

// traceID is what a template has in place of the id of a trace.
const traceID = "{trace_id}"

// samplers are those of OpenTelemetry that Belfry has.
var samplers = []string{
	"parentbased_traceidratio", "parentbased_always_on", "parentbased_always_off", "traceidratio", "always_on",
	"always_off",
}

// ShareOf returns the share of the runs that are traced, and whether a triggered run follows its caller instead.
func (t *Tracing) ShareOf() (ratio float64, parent bool) {
	name, parent := strings.CutPrefix(t.Sampler, "parentbased_")
	switch name {
	case "always_on":
		ratio = 1
	case "traceidratio":
		ratio, _ = strconv.ParseFloat(t.Ratio, 64) // the form has been checked
	}
	return ratio, parent
}

// HeaderValues returns the headers of requests to the collector.
func (t *Tracing) HeaderValues() http.Header {
	h := http.Header{}
	pairs, _ := pairs(t.Headers) // the form has been checked
	for name, value := range pairs {
		h.Set(name, value)
	}
	return h
}

// ResourceAttributes returns the further attributes of this service.
func (t *Tracing) ResourceAttributes() map[string]string {
	pairs, _ := pairs(t.Resource) // the form has been checked
	return pairs
}

// pairs reads a list as OpenTelemetry has it: key=value with commas between them, and special characters as %XX.
func pairs(text string) (map[string]string, bool) {
	out := map[string]string{}
	for entry := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		key, value, ok := strings.Cut(entry, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !ok || key == "" || err != nil || strings.ContainsFunc(value, unicode.IsControl) {
			return nil, false
		}
		out[key] = value
	}
	return out, len(out) <= maxPairs && len(text) <= 16<<10
}

// tracingOK reports whether a text has one of the forms of the tracing settings.
func tracingOK(form, text string) bool {
	switch form {
	case "ratio":
		ratio, err := strconv.ParseFloat(text, 64)
		return err == nil && ratio >= 0 && ratio <= 1
	case "sampler":
		return slices.Contains(samplers, text)
	case "headers":
		all, ok := pairs(text)
		return ok && !slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(name string) bool {
			return !httpguts.ValidHeaderFieldName(name)
		})
	case "pairs":
		_, ok := pairs(text)
		return ok
	default:
		return templateOK(text)
	}
}

// templateOK accepts a URL whose place for the id is not in the host: a link must not lead to a host of the id's choice.
func templateOK(text string) bool {
	u, err := url.Parse(strings.ReplaceAll(text, traceID, "0"))
	return err == nil && strings.Contains(text, traceID) && (u.Scheme == "https" || u.Scheme == "http") &&
		u.Host != "" && u.User == nil && len(text) <= 1000 && !strings.ContainsAny(text, " \"'<>`\\") &&
		strings.HasPrefix(text, u.Scheme+"://"+u.Host+"/")
}

// variables are the standard variables of OpenTelemetry and the settings that they set. Those that begin with OTLP have
// one for traces alone, which is stronger.
var variables = []struct {
	name, key string
	convert   func(string) string // to the form of the setting; nil: as it is
}{
	{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "tracing.endpoint", nil},
	{"OTEL_EXPORTER_OTLP_ENDPOINT", "tracing.endpoint", belowBase},
	{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "tracing.headers", nil},
	{"OTEL_EXPORTER_OTLP_HEADERS", "tracing.headers", nil},
	{"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "tracing.ca_file", nil},
	{"OTEL_EXPORTER_OTLP_CERTIFICATE", "tracing.ca_file", nil},
	{"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "tracing.compression", nil},
	{"OTEL_EXPORTER_OTLP_COMPRESSION", "tracing.compression", nil},
	{"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "tracing.timeout", milliseconds},
	{"OTEL_EXPORTER_OTLP_TIMEOUT", "tracing.timeout", milliseconds},
	{"OTEL_TRACES_SAMPLER", "tracing.sampler", nil},
	{"OTEL_TRACES_SAMPLER_ARG", "tracing.ratio", nil},
	{"OTEL_BSP_MAX_QUEUE_SIZE", "tracing.queue", nil},
	{"OTEL_SERVICE_NAME", "tracing.service", nil},
	{"OTEL_RESOURCE_ATTRIBUTES", "tracing.resource", nil},
}

func belowBase(v string) string { return strings.TrimSuffix(v, "/") + "/v1/traces" }

func milliseconds(v string) string { return v + "ms" }

// standard reads the standard variables of OpenTelemetry, the weakest source: they are often set for all programs of a
// machine or cluster, and the configuration file is for Belfry alone. One that Belfry cannot follow is ignored, with a
// warning, because it may be meant for others.
func standard(environ []string) (l layer, warnings []string, err error) {
	found, names := map[string]any{}, map[string]string{}
	off := variable(environ, "OTEL_SDK_DISABLED") == "true" || variable(environ, "OTEL_TRACES_EXPORTER") == "none"
	for _, v := range variables {
		value := variable(environ, v.name)
		if value == "" || names[v.key] != "" || off {
			continue
		}
		if v.convert != nil {
			value = v.convert(value)
		}
		f, _ := lookup(v.key)
		if _, ok := f.parse(value); !ok {
			warnings = append(warnings, fmt.Sprintf("the environment variable %s is ignored; want %s", v.name, f.accepted()))
			continue
		}
		found[v.key], names[v.key] = value, v.name
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		value := variable(environ, name)
		if value != "" && value != "http/protobuf" && names["tracing.endpoint"] != "" {
			warnings = append(warnings, fmt.Sprintf(
				"the environment variable %s is ignored; spans go by http/protobuf, often to port 4318", name))
		}
		if value != "" {
			break
		}
	}
	l, err = newLayer(values(found), func(key string) Source { return Source{Kind: "environment", Name: names[key]} })
	l.weak = true
	return l, warnings, err
}

// values is a koanf.Provider of settings by their key.
type values map[string]any

// Read implements koanf.Provider.
func (v values) Read() (map[string]any, error) { return koanfmaps.Unflatten(v, "."), nil }

// ReadBytes is not used.
func (v values) ReadBytes() ([]byte, error) { return nil, nil }
