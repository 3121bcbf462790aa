package config_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStandardVariables: the variables of OpenTelemetry set the tracing of Belfry unless a setting of Belfry does.
func TestStandardVariables(t *testing.T) {
	t.Parallel()
	v, err := load(t, "tracing: {service: from-file}", `OTEL_EXPORTER_OTLP_ENDPOINT=https://collector:4318/
OTEL_EXPORTER_OTLP_HEADERS=api-key=se%20cret, x-team = a
OTEL_EXPORTER_OTLP_TIMEOUT=2500
OTEL_EXPORTER_OTLP_COMPRESSION=none
OTEL_TRACES_SAMPLER=traceidratio
OTEL_TRACES_SAMPLER_ARG=0.25
BELFRY_TRACING_RATIO=0.5
OTEL_BSP_MAX_QUEUE_SIZE=4096
OTEL_SERVICE_NAME=ignored
OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test`, "--tracing-queue 500")
	require.NoError(t, err)
	got := v.Tracing
	require.Equal(t, "https://collector:4318/v1/traces", got.Endpoint)
	require.Equal(t, http.Header{"Api-Key": {"se cret"}, "X-Team": {"a"}}, got.HeaderValues())
	require.Equal(t, 2500*time.Millisecond, got.Timeout)
	require.Equal(t, "none", got.Compression)
	ratio, parent := got.ShareOf()
	require.InDelta(t, .5, ratio, 0)
	require.False(t, parent)
	require.Equal(t, 500, got.Queue)
	require.Equal(t, "from-file", got.Service, "a setting of Belfry is stronger")
	require.Equal(t, map[string]string{"deployment.environment.name": "test"}, got.ResourceAttributes())
	require.Equal(t, "environment OTEL_EXPORTER_OTLP_ENDPOINT", v.Source("tracing.endpoint").String())
	require.Empty(t, v.Warnings)

	v, err = load(t, "", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://a.example/x\nOTEL_EXPORTER_OTLP_ENDPOINT=http://b", "")
	require.NoError(t, err)
	require.Equal(t, "https://a.example/x", v.Tracing.Endpoint, "as it is")
	for _, off := range []string{"OTEL_SDK_DISABLED=true", "OTEL_TRACES_EXPORTER=none"} {
		v, err = load(t, "", "OTEL_EXPORTER_OTLP_ENDPOINT=http://b\n"+off, "")
		require.NoError(t, err)
		require.Empty(t, v.Tracing.Endpoint, off)
	}
}

// TestVariablesForOthers: a variable that Belfry cannot follow does not keep a node from starting.
func TestVariablesForOthers(t *testing.T) {
	t.Parallel()
	v, err := load(t, "", `OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4317
OTEL_EXPORTER_OTLP_PROTOCOL=grpc
OTEL_TRACES_SAMPLER=jaeger_remote
OTEL_TRACES_SAMPLER_ARG=endpoint=http://localhost:14250`, "")
	require.NoError(t, err)
	require.Equal(t, "parentbased_traceidratio", v.Tracing.Sampler)
	require.Equal(t, []string{
		"the environment variable OTEL_TRACES_SAMPLER is ignored; want parentbased_traceidratio, " +
			"parentbased_always_on, parentbased_always_off, traceidratio, always_on, always_off",
		"the environment variable OTEL_TRACES_SAMPLER_ARG is ignored; want a number from 0 to 1",
		"the environment variable OTEL_EXPORTER_OTLP_PROTOCOL is ignored; spans go by http/protobuf, often to port 4318",
	}, v.Warnings)
}

func TestSamplers(t *testing.T) {
	t.Parallel()
	for sampler, want := range map[string]struct {
		ratio  float64
		parent bool
	}{
		"parentbased_traceidratio": {.01, true}, "traceidratio": {.01, false}, "always_on": {1, false},
		"always_off": {0, false}, "parentbased_always_on": {1, true}, "parentbased_always_off": {0, true},
	} {
		v, err := load(t, "", "", "--tracing-sampler "+sampler)
		require.NoError(t, err)
		ratio, parent := v.Tracing.ShareOf()
		require.InDelta(t, want.ratio, ratio, 0, sampler)
		require.Equal(t, want.parent, parent, sampler)
	}
}

func TestTracingIsChecked(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"--tracing-url https://traces.example.com/trace/{trace_id}", "--tracing-ratio 1", "--tracing-ratio 0",
		"--tracing-url http://127.0.0.1:16686/search?id={trace_id}&x=1", "--tracing-headers a=b,c=d",
	} {
		_, err := load(t, "", "", good)
		require.NoError(t, err, good)
	}
	for _, bad := range []string{
		"--tracing-url https://traces.example.com/", "--tracing-url javascript:alert({trace_id})",
		"--tracing-url https://{trace_id}.example.com/", "--tracing-url https://user:x@example.com/{trace_id}",
		"--tracing-url https://example.com{trace_id}/", "--tracing-url https://example.com/{trace_id}\"onload=x",
		"--tracing-ratio 1.1", "--tracing-ratio -1", "--tracing-ratio NaN", "--tracing-ratio x",
		"--tracing-headers secret", "--tracing-resource =x", "--tracing-endpoint collector:4318",
		"--tracing-endpoint http://user:secret@collector/", "--tracing-queue 1", "--tracing-sampler all",
	} {
		_, err := load(t, "", "", bad)
		require.Error(t, err, bad)
	}
	require.NotContains(t, refusal(t, "", "", "--tracing-headers canary"), "canary")
	v, err := load(t, "", "", "--tracing-headers-file "+write(t, "headers", "api-key=s\n"))
	require.NoError(t, err)
	require.Equal(t, "s", v.Tracing.HeaderValues().Get("api-key"))
}
