package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/seal"
)

// TestNodesAcceptTheirSettings loads the settings that the chart writes as a node does, with the files of its secrets.
func TestNodesAcceptTheirSettings(t *testing.T) {
	t.Parallel()
	for _, values := range []string{minimal, full} {
		t.Run(filepath.Base(values), func(t *testing.T) {
			t.Parallel()
			objects, dir := render(t, "--values", values), t.TempDir()
			settings := at(objects["ConfigMap belfry"], "data", "belfry.yaml").(string)
			containers := at(objects["Deployment belfry"], "spec", "template", "spec", "containers").([]any)
			mounted := writeFiles(t, dir, objects["Deployment belfry"], settings)
			var environ []string
			for _, e := range at(containers[0], "env").([]any) {
				value, _ := at(e, "value").(string)
				if strings.HasPrefix(value, "/etc/belfry/") {
					require.FileExists(t, filepath.Join(dir, value), "no volume has it")
					delete(mounted, value)
					value = filepath.Join(dir, value)
				}
				environ = append(environ, at(e, "name").(string)+"="+value)
			}
			for path := range mounted {
				require.Regexp(t, `^/etc/belfry/(tls/tls\.(crt|key)|database-ca/ca\.crt)$`, path, "mounted and not named")
			}
			flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
			config.Flags(flags)
			require.NoError(t, flags.Parse(nil))
			v, err := config.Load(flags, environ)
			require.NoError(t, err, settings)
			require.Len(t, v.Warnings, 1, "%v", v.Warnings)
			require.Contains(t, v.Warnings[0], "metrics_listen", "which the NetworkPolicy is for")
			require.Equal(t, "postgres://belfry_server:c4nary@db.example.com/belfry?sslmode=verify-full", v.DatabaseURL)
			require.Equal(t, at(objects["Deployment belfry"], "spec", "template", "spec", "terminationGracePeriodSeconds"),
				int(v.Drain.Seconds())+15)
			require.Positive(t, v.WaitForSchema)
		})
	}
}

// writeFiles writes the files that the volumes of a Deployment mount, below dir, and returns their paths.
func writeFiles(t *testing.T, dir string, deployment object, settings string) map[string]bool {
	t.Helper()
	contents := map[string]string{
		"config/belfry.yaml": strings.ReplaceAll(settings, "/etc/belfry/", dir+"/etc/belfry/"),
		"database/url":       "postgres://belfry_server:c4nary@db.example.com/belfry?sslmode=verify-full",
		"keyset/keyset":      "", "oidc/client-secret": "secret", "tracing/headers": "api-key=secret",
		"archive-access-key/key": "access", "archive-secret-key/key": "secret",
		"database-ca/ca.crt": "", "tls/tls.crt": "", "tls/tls.key": "",
	}
	keys, err := seal.New()
	require.NoError(t, err)
	contents["keyset/keyset"], err = keys.Text()
	require.NoError(t, err)
	paths := map[string]bool{}
	for _, v := range at(deployment, "spec", "template", "spec", "volumes").([]any) {
		volume := at(v, "name").(string)
		for file, text := range contents {
			if !strings.HasPrefix(file, volume+"/") {
				continue
			}
			path := filepath.Join("/etc/belfry", file)
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600))
			paths[path] = true
		}
	}
	return paths
}

// own are the settings that the chart sets itself, or that come from secrets.
var own = regexp.MustCompile(`^(database_url|secrets\.keyset|oidc\.client_secret|` +
	`tracing\.headers|archive\.(access|secret)_key)(_file)?$|` +
	`^(listen|metrics_listen|tls_cert|tls_key|insecure_listen|insecure_database|name|drain|wait_for_schema|archive\.directory)$|` +
	`^command\.`) // a sandbox needs what the level restricted forbids

var (
	settingRow = regexp.MustCompile("(?m)^\\| `([a-z_.0-9]+)` \\| [^|]* \\| ([^|]*) \\|")
	wholes     = regexp.MustCompile(`^a whole number from (\d+) to (\d+)$`)
	choices    = regexp.MustCompile(`^[a-z_]+(, [a-z_]+)+$`)
)

const durations = `^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$`

// settingSchema is the JSON Schema of a setting, by what the reference says is accepted.
func settingSchema(accepted string) object {
	whole := wholes.FindStringSubmatch(accepted)
	switch {
	case whole != nil:
		low, _ := strconv.ParseFloat(whole[1], 64)
		high, _ := strconv.ParseFloat(whole[2], 64)
		return object{"type": "integer", "minimum": low, "maximum": high}
	case accepted == "true, false":
		return object{"type": "boolean"}
	case strings.HasPrefix(accepted, "a duration from"):
		return object{"type": "string", "pattern": durations}
	case choices.MatchString(accepted):
		var list []any
		for c := range strings.SplitSeq(accepted, ", ") {
			list = append(list, c)
		}
		return object{"type": "string", "enum": list}
	}
	return object{"type": "string"}
}

func closed() object {
	return object{"type": "object", "additionalProperties": false, "properties": object{}}
}

// TestSchemaHasTheSettings: the values below config are the settings of a node. If this fails because a setting is new,
// add it to values.schema.json as printed.
func TestSchemaHasTheSettings(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(root + "/docs/reference/configuration.md")
	require.NoError(t, err)
	want := closed()
	for _, row := range settingRow.FindAllStringSubmatch(string(page), -1) {
		if own.MatchString(row[1]) {
			continue
		}
		section, name, inside := strings.Cut(row[1], ".")
		into := at(want, "properties").(object)
		if inside {
			if into[section] == nil {
				into[section] = closed()
			}
			at(into, section, "properties").(object)[name] = settingSchema(row[2])
			continue
		}
		into[section] = settingSchema(row[2])
	}
	text, err := json.MarshalIndent(want, "", "  ")
	require.NoError(t, err)
	got, err := json.MarshalIndent(at(readSchema(t), "properties", "config"), "", "  ")
	require.NoError(t, err)
	require.Equal(t, string(text), string(got))
}

func readSchema(t *testing.T) (schema object) {
	t.Helper()
	text, err := os.ReadFile(directory + "/values.schema.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &schema))
	return schema
}

// TestSchemaIsClosed: each object of the schema lists what it accepts, and values.yaml has a default for all of it.
func TestSchemaIsClosed(t *testing.T) {
	t.Parallel()
	var defaults object
	readYAML(t, directory+"/values.yaml", &defaults)
	free := map[string]bool{ // of Kubernetes, which validates them
		"global": true, "affinity": true, "networkPolicy.apiFrom[]": true, "networkPolicy.metricsFrom[]": true,
		"networkPolicy.egress[]": true, "tolerations[]": true, "extraEnv[]": true, "extraVolumes[]": true,
		"extraVolumeMounts[]": true,
	}
	var walk func(path string, schema object, value any)
	walk = func(path string, schema object, value any) {
		if items, ok := schema["items"].(object); ok {
			walk(path+"[]", items, nil)
		}
		properties, ok := schema["properties"].(object)
		switch {
		case !ok && schema["type"] == "object" && schema["additionalProperties"] == nil:
			require.True(t, free[path], "%s accepts anything", path)
			return
		case !ok:
			return
		}
		require.Equal(t, false, schema["additionalProperties"], path)
		for name, inner := range properties {
			inside := strings.TrimPrefix(fmt.Sprintf("%s.%s", path, name), ".")
			if v, ok := value.(object); ok && path != "config" && inside != "global" {
				require.Contains(t, v, name, "values.yaml does not show %s", inside)
			}
			walk(inside, inner.(object), at(value, name))
		}
	}
	walk("", readSchema(t), defaults)
}
