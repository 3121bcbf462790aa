package chart

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const (
	root      = "../../.."
	directory = root + "/deploy/helm/belfry"
	minimal   = directory + "/ci/minimal-values.yaml"
	full      = directory + "/ci/full-values.yaml"
)

// tool returns the path of a program that make test-chart builds into the directory of HELM_TOOLS.
func tool(t *testing.T, name string) string {
	t.Helper()
	tools := os.Getenv("HELM_TOOLS")
	if tools == "" {
		t.Skip("HELM_TOOLS is not set; make test-chart builds the tools and sets it")
	}
	return filepath.Join(tools, name)
}

// run returns what a program prints. If it fails, that is also what it prints to stderr.
func run(t *testing.T, name string, args ...string) (output string, err error) {
	t.Helper()
	command, problems := exec.CommandContext(t.Context(), name, args...), &bytes.Buffer{}
	home := t.TempDir() // nothing of the user's Helm
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	command.Stderr = problems
	text, err := command.Output()
	if err != nil {
		return string(text) + problems.String(), err
	}
	return string(text), nil
}

func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	output, err := run(t, name, args...)
	require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), output)
	return output
}

// object is one object of Kubernetes.
type object = map[string]any

// at returns what is under the keys, nil if nothing is.
func at(o any, keys ...string) any {
	for _, key := range keys {
		m, ok := o.(object)
		if !ok {
			return nil
		}
		o = m[key]
	}
	return o
}

// render returns the objects of the chart by kind and name.
func render(t *testing.T, args ...string) map[string]object {
	t.Helper()
	helm := tool(t, "helm")
	text := must(t, helm, append([]string{"template", "belfry", directory, "--namespace", "jobs"}, args...)...)
	objects := map[string]object{}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err, text)
		if o == nil {
			continue
		}
		name := o["kind"].(string) + " " + at(o, "metadata", "name").(string)
		require.NotContains(t, objects, name)
		require.Equal(t, "jobs", at(o, "metadata", "namespace"), name)
		objects[name] = o
	}
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, yaml.NewDecoder(bytes.NewReader(text)).Decode(into))
}

func TestLint(t *testing.T) {
	t.Parallel()
	for _, values := range []string{minimal, full} {
		t.Log(strings.TrimSpace(must(t, tool(t, "helm"), "lint", "--strict", directory, "--values", values)))
	}
}

// TestRequired: helm lint does not look for what is required, so it is an error of the templates.
func TestRequired(t *testing.T) {
	t.Parallel()
	helm := tool(t, "helm")
	for set, want := range map[string]string{
		"image.repository=":      "image.repository is required",
		"secrets.database.name=": "secrets.database.name is required",
		"secrets.owner.name=":    "secrets.owner.name is required",
		"insecureListen=false":   "set secrets.tls.name, or insecureListen: true",
		"ingress.enabled=true":   "ingress.host is required",
		// A directory of a pod is gone with it, and the days that were dropped from the database are too.
		"config.archive.url=file:///var/lib/belfry/archive": "config.archive.url must be a bucket",
		"config.archive.url=file:///srv/archive":            "config.archive.url must be a bucket",
		"config.archive.url=s3://bucket":                    "config.archive.url must be a bucket",
		"config.archive.url=http://minio.internal:9000/b":   "config.archive.url leads to another machine without TLS",
	} {
		output, err := run(t, helm, "template", "belfry", directory, "--values", minimal, "--set", set)
		require.Error(t, err, set)
		require.Contains(t, output, want)
	}
}

// TestNodesNeverGetTheOwner: only the migration has the URL of the database's owner, and it has no other.
func TestNodesNeverGetTheOwner(t *testing.T) {
	t.Parallel()
	objects := render(t, "--values", minimal)
	job := jobName(t, objects)
	for name, o := range objects {
		text, err := yaml.Marshal(o)
		require.NoError(t, err)
		require.Equal(t, name == job, strings.Contains(string(text), "belfry-owner"), name)
		node := name == "Deployment belfry" || name == "Pod belfry-doctor"
		require.Equal(t, node, strings.Contains(string(text), "secretName: belfry-database"), name)
	}
}

// TestObjects: what the guide says that the chart has.
func TestObjects(t *testing.T) {
	t.Parallel()
	objects := render(t, "--values", full)
	delete(objects, jobName(t, objects))
	require.ElementsMatch(t, []string{
		"Deployment belfry", "Service belfry", "Service belfry-metrics", "ConfigMap belfry", "ConfigMap belfry-dashboards",
		"ServiceAccount belfry", "PodDisruptionBudget belfry", "NetworkPolicy belfry", "NetworkPolicy belfry-tasks",
		"ServiceMonitor belfry", "PrometheusRule belfry", "Pod belfry-doctor", "Ingress belfry",
	}, slices.Collect(maps.Keys(objects)))
}

// TestUnit runs the tests of deploy/helm/belfry/tests.
func TestUnit(t *testing.T) {
	t.Parallel()
	output := must(t, tool(t, "helm-unittest"), "--strict", directory)
	t.Log(output)
	require.Regexp(t, `(?m)^Tests: +[1-9][0-9]* passed, `, output)
}

// TestUnknownValueIsRefused: also one inside each section.
func TestUnknownValueIsRefused(t *testing.T) {
	t.Parallel()
	helm := tool(t, "helm")
	for _, set := range []string{
		"replica=5", "image.repo=x", "secrets.database.secret=x", "config.slotz=5", "config.api.keyrate=5",
		"config.database_url=postgres://x", "config.command.enabled=true", "metrics.serviceMonitor.on=true",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			output, err := run(t, helm, "template", "belfry", directory, "--values", minimal, "--set", set)
			require.Error(t, err)
			require.Contains(t, output, "additional properties", "%s", output)
		})
	}
	for _, set := range []string{"replicas=0", "config.slots=many", "config.log.level=loud", "config.keep_history=long", "spread=wide"} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			output, err := run(t, helm, "template", "belfry", directory, "--values", minimal, "--set", set)
			require.Error(t, err)
			require.Contains(t, output, "values don't meet the specifications", "%s", output)
		})
	}
}

// TestJobIsNamedByWhatItDoes: a Job cannot be changed, so whatever changes it must change its name, and nothing else may.
func TestJobIsNamedByWhatItDoes(t *testing.T) {
	t.Parallel()
	names := map[string]string{}
	for _, set := range []string{
		"image.tag=v1", "image.tag=v2", "migration.serverRole=x", "secrets.owner.name=x", "nodeSelector.a=b", "podLabels.a=b",
		"migration.backoffLimit=3", "migration.resources.limits.memory=1Gi",
	} {
		name := jobName(t, render(t, "--values", minimal, "--set", set))
		require.Empty(t, names[name], "the same name as with %s", names[name])
		names[name] = set
	}
	for _, set := range []string{"replicas=9", "config.slots=5", "drainSeconds=60", "resources.limits.memory=2Gi"} {
		name := jobName(t, render(t, "--values", minimal, "--set", "image.tag=v1", "--set", set))
		require.Equal(t, "image.tag=v1", names[name], "%s migrates again", set)
	}
}

func jobName(t *testing.T, objects map[string]object) string {
	t.Helper()
	for name := range objects {
		if strings.HasPrefix(name, "Job ") {
			require.LessOrEqual(t, len(name), len("Job ")+63)
			return name
		}
	}
	t.Fatal("no Job")
	return ""
}

// TestNodesRestartForTheirSettings: a node reads its settings only when it starts.
func TestNodesRestartForTheirSettings(t *testing.T) {
	t.Parallel()
	template := func(set string) any {
		return at(render(t, "--values", minimal, "--set", set)["Deployment belfry"], "spec", "template")
	}
	first := template("config.slots=5")
	require.NotNil(t, first)
	require.Equal(t, first, template("config.slots=5"))
	require.NotEqual(t, first, template("config.slots=6"))
	require.Equal(t, first, template("config.slots=5,metrics.serviceMonitor.enabled=true,replicas=7"))
}
