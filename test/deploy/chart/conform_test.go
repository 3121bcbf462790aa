package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConforms validates the objects of the chart by the descriptions of Kubernetes and of the Prometheus Operator, and a
// field that these do not know is an error.
func TestConforms(t *testing.T) {
	t.Parallel()
	kubeconform, dir := tool(t, "kubeconform"), t.TempDir()
	writeSchemas(t, dir)
	check := func(manifests string) (string, error) {
		file := filepath.Join(t.TempDir(), "manifests.yaml")
		require.NoError(t, os.WriteFile(file, []byte(manifests), 0o600))
		return run(t, kubeconform, "-strict", "-summary", "-schema-location",
			dir+"/{{.ResourceKind}}{{.KindSuffix}}.json", file)
	}
	for _, values := range []string{minimal, full} {
		manifests := must(t, tool(t, "helm"), "template", "belfry", directory, "--values", values)
		output, err := check(manifests)
		require.NoError(t, err, output)
		t.Log(filepath.Base(values), strings.TrimSpace(output))
		for _, broken := range [][2]string{
			{"maxSurge: 1", "maxSurge: {}"},
			{"replicas:", "replicaz:"},
			{"runAsNonRoot: true", "runAsNonRoot: sure"},
			{"policyTypes:", "policyType:"},
			{"backoffLimit:", "backoffLimits:"},
		} {
			require.Contains(t, manifests, broken[0])
			output, err := check(strings.Replace(manifests, broken[0], broken[1], 1))
			require.Error(t, err, "%s passes: %s", broken[1], output)
		}
	}
	manifests := must(t, tool(t, "helm"), "template", "belfry", directory, "--values", full)
	output, err := check(strings.Replace(manifests, "targetLabel:", "targetLabels:", 1))
	require.Error(t, err, output)
	output, err = check(strings.Replace(manifests, "ingressClassName:", "ingressClass:", 1))
	require.Error(t, err, output)

	database := guideBlocks(t, "yaml cloudnative-pg")
	require.Len(t, database, 1)
	output, err = check(database[0])
	require.NoError(t, err, output)
	output, err = check(strings.Replace(database[0], "instances:", "instance:", 1))
	require.Error(t, err, output)
}

// guideBlocks returns the blocks of docs/guide/kubernetes.md with these words after the backquotes.
func guideBlocks(t *testing.T, words string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/guide/kubernetes.md")
	require.NoError(t, err)
	for i, part := range strings.Split(string(text), "```") {
		if code, ok := strings.CutPrefix(part, words+"\n"); ok && i%2 == 1 {
			blocks = append(blocks, code)
		}
	}
	return blocks
}

// TestValuesOfTheGuide: Helm accepts each block of values, together with what the first one sets.
func TestValuesOfTheGuide(t *testing.T) {
	t.Parallel()
	blocks, first := guideBlocks(t, "yaml helm"), filepath.Join(t.TempDir(), "values.yaml")
	require.GreaterOrEqual(t, len(blocks), 3)
	require.NoError(t, os.WriteFile(first, []byte(blocks[0]), 0o600))
	for _, b := range blocks {
		file := filepath.Join(t.TempDir(), "more.yaml")
		require.NoError(t, os.WriteFile(file, []byte(b), 0o600))
		require.Contains(t, render(t, "--values", first, "--values", file), "Deployment belfry")
	}
}

// module returns the directory of a module of Go that HELM_MODULES lists, as name=directory.
func module(t *testing.T, name string) string {
	t.Helper()
	for entry := range strings.SplitSeq(os.Getenv("HELM_MODULES"), ":") {
		if key, dir, ok := strings.Cut(entry, "="); ok && key == name {
			return dir
		}
	}
	t.Skip("HELM_MODULES does not name " + name + "; make test-chart sets it")
	return ""
}

// writeSchemas writes a JSON Schema for each kind of the API of Kubernetes, from the description in its module, and for
// the kinds of the Prometheus Operator, from theirs.
func writeSchemas(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(module(t, "kubernetes"), "api/openapi-spec/swagger.json"))
	require.NoError(t, err)
	var api struct {
		Definitions map[string]object `json:"definitions"`
	}
	require.NoError(t, json.Unmarshal(text, &api))
	for name, d := range api.Definitions {
		switch name {
		case "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
			api.Definitions[name] = object{"type": []string{"string", "integer"}}
		case "io.k8s.apimachinery.pkg.api.resource.Quantity":
			api.Definitions[name] = object{"type": []string{"string", "number"}}
		default:
			closeObjects(d)
		}
	}
	write := func(file string, schema any) {
		text, err := json.Marshal(schema)
		require.NoError(t, err)
		text = []byte(strings.ReplaceAll(string(text), `"#/definitions/`, `"definitions.json#/definitions/`))
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), text, 0o600))
	}
	write("definitions.json", api)
	kinds := 0
	for name, d := range api.Definitions {
		list, _ := d["x-kubernetes-group-version-kind"].([]any)
		for _, k := range list {
			write(schemaName(at(k, "kind"), at(k, "group"), at(k, "version")), object{"$ref": "#/definitions/" + name})
			kinds++
		}
	}
	require.Greater(t, kinds, 100)
	for _, file := range []string{
		kindFile(t, "servicemonitors"), kindFile(t, "prometheusrules"),
		filepath.Join(module(t, "cloudnative-pg"), "config/crd/bases/postgresql.cnpg.io_clusters.yaml"),
	} {
		var crd object
		readYAML(t, file, &crd)
		schema := at(at(crd, "spec", "versions").([]any)[0], "schema", "openAPIV3Schema").(object)
		closeObjects(schema)
		at(schema, "properties").(object)["metadata"] = object{"type": "object"}
		write(schemaName(at(crd, "spec", "names", "kind"), at(crd, "spec", "group"), "v1"), schema)
	}
}

// kindFile returns the file that describes a kind of the Prometheus Operator.
func kindFile(t *testing.T, plural string) string {
	t.Helper()
	return filepath.Join(module(t, "prometheus-operator"), "example/prometheus-operator-crd",
		"monitoring.coreos.com_"+plural+".yaml")
}

// schemaName is where kubeconform looks for the schema of a kind.
func schemaName(kind, group, version any) string {
	name := kind.(string)
	if first, _, _ := strings.Cut(group.(string), "."); first != "" {
		name += "-" + first
	}
	return strings.ToLower(name + "-" + version.(string) + ".json")
}

// closeObjects makes unknown fields errors, as the API server's strict validation does.
func closeObjects(schema object) {
	if schema["x-kubernetes-int-or-string"] == true {
		delete(schema, "type")
		delete(schema, "pattern")
	}
	properties, ok := schema["properties"].(object)
	if ok && schema["additionalProperties"] == nil && schema["x-kubernetes-preserve-unknown-fields"] != true {
		schema["additionalProperties"] = false
	}
	for _, inner := range properties {
		if s, ok := inner.(object); ok {
			closeObjects(s)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if s, ok := schema[key].(object); ok {
			closeObjects(s)
		}
	}
}
