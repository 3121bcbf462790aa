package deploy

import (
	"errors"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestTheAutoscalerAsksForWhatTheAPIHas: the URL and the field of the KEDA example are those of the API's description.
func TestTheAutoscalerAsksForWhatTheAPIHas(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../../deploy/keda/scaledobject.yaml")
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	var api map[string]any
	read(t, "../../api/openapi.yaml", &api)
	names, triggers := map[string]bool{}, 0
	for d := yaml.NewDecoder(f); ; {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				Triggers []struct {
					Type              string
					Metadata          map[string]string
					AuthenticationRef struct{ Name string } `yaml:"authenticationRef"`
				}
			}
		}
		if err := d.Decode(&object); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		names[object.Kind+" "+object.Metadata.Name] = true
		for _, trigger := range object.Spec.Triggers {
			triggers++
			require.Equal(t, "metrics-api", trigger.Type)
			require.True(t, names["TriggerAuthentication "+trigger.AuthenticationRef.Name])
			u, err := url.Parse(trigger.Metadata["url"])
			require.NoError(t, err)
			operation := at(t, api, "paths", "/api/v1/queues/{queue}", "get")
			require.Equal(t, "/api/v1/queues/imports", u.Path)
			for name := range u.Query() {
				require.Contains(t, parameters(t, operation), name)
			}
			schema := at(t, api, "components", "schemas", "Queue")
			for field := range strings.SplitSeq(trigger.Metadata["valueLocation"], ".") {
				schema = at(t, schema, "properties", field)
				if ref, ok := schema["$ref"].(string); ok {
					schema = at(t, api, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
				}
			}
			require.Equal(t, "integer", schema["type"])
		}
	}
	require.Equal(t, 1, triggers)
}

func read(t *testing.T, file string, out any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, out))
}

// at returns an object in another one.
func at(t *testing.T, in map[string]any, path ...string) map[string]any {
	t.Helper()
	for _, name := range path {
		next, ok := in[name].(map[string]any)
		require.True(t, ok, "no %s in %v", name, path)
		in = next
	}
	return in
}

func parameters(t *testing.T, operation map[string]any) (names []string) {
	t.Helper()
	for _, p := range operation["parameters"].([]any) {
		names = append(names, p.(map[string]any)["name"].(string))
	}
	return names
}
