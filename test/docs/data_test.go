package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/command"
)

// shortPEM is a certificate that a page shortens.
var shortPEM = regexp.MustCompile(`-----BEGIN CERTIFICATE-----\\n[A-Z]+…\\n-----END CERTIFICATE-----\\n`)

// checkJSON validates what a json block shows: documents one after the other, or members of one object.
func (s *space) checkJSON(t *testing.T, b block) (kind string, err error) {
	t.Helper()
	text := shortPEM.ReplaceAllString(strings.TrimSpace(b.text), s.certificate)
	if strings.HasPrefix(text, `"`) {
		text = "{" + text + "}"
	}
	d := json.NewDecoder(strings.NewReader(text))
	for {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return kind, nil
		} else if err != nil {
			return "", fmt.Errorf("%s: %w", b, err)
		}
		if operation := b.option("response"); operation != "" {
			kind, err = "json response", checkResponse(t, operation, raw)
		} else {
			kind, err = s.checkValue(t, raw)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w\n%s", b, err, raw)
		}
	}
}

// checkValue validates a job, a target, a schedule or its calendars by the real API.
func (s *space) checkValue(t *testing.T, raw json.RawMessage) (kind string, err error) {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return "", err
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return fields[n] != nil })
	}
	switch {
	case has("schedule") && has("target"):
		return "json job", s.checkJob(t, raw)
	case has("kind") && has("config"):
		return "json target", s.checkJob(t, fmt.Appendf(nil, `{"name": "x", "schedule": "every 1h", "target": %s}`, raw))
	case has("cron", "every", "at", "rrule"):
		return "json schedule", s.preview(t, fmt.Appendf(nil, `{"schedule": %s}`, raw))
	case has("calendars"):
		return "json schedule", s.preview(t, fmt.Appendf(nil, `{"schedule": {"cron": "0 9 * * *", "calendars": %s}}`,
			fields["calendars"]))
	}
	return "", errors.New("neither a job nor a target nor a schedule; a response needs response=OPERATION after json")
}

// checkJob validates a job as if it were created. The node runs no commands, so their config is checked apart.
func (s *space) checkJob(t *testing.T, raw json.RawMessage) error {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	var to job.Target
	if err := json.Unmarshal(fields["target"], &to); err != nil {
		return err
	}
	if to.Kind == "command" {
		if err := new(command.Target).Check(to.Config); err != nil {
			return err
		}
		fields["target"] = json.RawMessage(`{"kind": "http", "config": {"url": "https://example.com"}}`)
	}
	body, err := json.Marshal(map[string]any{"job": fields})
	require.NoError(t, err)
	return s.preview(t, body)
}

func (s *space) preview(t *testing.T, body []byte) error {
	t.Helper()
	_, err := s.call(t.Context(), http.MethodPost, "/jobs:preview", body)
	return err
}

// checkResponse compares a response with the description of its operation: each member must be described there.
func checkResponse(t *testing.T, operation string, raw json.RawMessage) error {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "api/openapi.yaml"))
	require.NoError(t, err)
	var api map[string]any
	require.NoError(t, yaml.Unmarshal(text, &api))
	for _, path := range api["paths"].(map[string]any) {
		for _, op := range path.(map[string]any) {
			if o, ok := op.(map[string]any); ok && o["operationId"] == operation {
				for _, status := range []string{"200", "201", "202"} {
					if schema := dig(o, "responses", status, "content", "application/json", "schema"); schema != nil {
						var value any
						require.NoError(t, json.Unmarshal(raw, &value))
						return conforms(api, schema, value, "")
					}
				}
			}
		}
	}
	return fmt.Errorf("the API has no operation %s with a JSON response", operation)
}

func dig(v any, names ...string) any {
	for _, n := range names {
		m, _ := v.(map[string]any)
		v = m[n]
	}
	return v
}

func conforms(api, schema, value any, path string) error {
	if ref, ok := dig(schema, "$ref").(string); ok {
		schema = dig(api, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	switch v := value.(type) {
	case map[string]any:
		properties, _ := dig(schema, "properties").(map[string]any)
		for name, member := range v {
			if properties[name] == nil {
				if dig(schema, "additionalProperties") == nil || dig(schema, "additionalProperties") == false {
					return fmt.Errorf("%s.%s is not in the API", path, name)
				}
				continue
			}
			if err := conforms(api, properties[name], member, path+"."+name); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := conforms(api, dig(schema, "items"), item, path+"[]"); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkYAML validates jobs as apply reads them, and configuration as a node reads it.
func (s *space) checkYAML(t *testing.T, b block) (kind string, err error) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(b.text))
	for {
		var value map[string]any
		if err := d.Decode(&value); errors.Is(err, io.EOF) {
			return kind, nil
		} else if err != nil {
			return "", fmt.Errorf("%s: %w", b, err)
		}
		switch {
		case value["schedule"] != nil && value["target"] != nil:
			raw, err := json.Marshal(value)
			require.NoError(t, err)
			if err := s.checkJob(t, raw); err != nil {
				return "", fmt.Errorf("%s: %w", b, err)
			}
			kind = "yaml job"
		case slices.Contains(b.info, "helm"):
			if err := checkValues(t, value); err != nil {
				return "", fmt.Errorf("%s: %w", b, err)
			}
			kind = "yaml values of the chart"
		case slices.ContainsFunc(b.info, func(of string) bool {
			return slices.Contains([]string{"patroni", "cloudnative-pg", "kubernetes"}, of)
		}):
			kind = "yaml of other programs (syntax)"
		default:
			file := filepath.Join(t.TempDir(), "belfry.yaml")
			require.NoError(t, os.WriteFile(file, []byte(b.text), 0o600))
			if _, err := config.LoadFile(file); err != nil {
				return "", fmt.Errorf("%s: neither a job nor a configuration: %w", b, err)
			}
			kind = "yaml configuration"
		}
	}
}

// checkValues compares the names of values with the schema of the Helm chart. Helm itself validates the rest, in test/deploy.
func checkValues(t *testing.T, values map[string]any) error {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/helm/belfry/values.schema.json"))
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	var walk func(path string, schema, values map[string]any) error
	walk = func(path string, schema, values map[string]any) error {
		known, ok := schema["properties"].(map[string]any)
		for name, value := range values {
			inner, listed := known[name].(map[string]any)
			if ok && !listed {
				return fmt.Errorf("the chart has no value %s%s", path, name)
			}
			if v, ok := value.(map[string]any); ok && listed {
				if err := walk(path+name+".", inner, v); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return walk("", schema, values)
}

// checkINI checks a unit of systemd, a configuration of PgBouncer, or settings of PostgreSQL.
func (c *cluster) checkINI(t *testing.T, b block) (kind string, err error) {
	t.Helper()
	section := ""
	for line := range strings.Lines(b.text) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[' && line[len(line)-1] == ']':
			section, kind = line, "ini of systemd and PgBouncer (syntax, belfry commands)"
		case !ok || name == "":
			return "", fmt.Errorf("%s: %q is no setting", b, line)
		case section == "":
			kind = "ini of PostgreSQL"
			var found bool
			require.NoError(t, c.pool.QueryRow(t.Context(),
				`SELECT EXISTS (SELECT FROM pg_settings WHERE name = $1)`, name).Scan(&found))
			if !found {
				return "", fmt.Errorf("%s: PostgreSQL has no setting %s", b, name)
			}
		case name == "ExecStart":
			words := strings.Fields(value)
			if filepath.Base(words[0]) != "belfry" {
				return "", fmt.Errorf("%s: %s is not belfry", b, words[0])
			}
			if err := parseCommand(words[1:]); err != nil {
				return "", fmt.Errorf("%s: %w", b, err)
			}
		}
	}
	return kind, nil
}

// yamlFiles returns the files that a page shows: the first line of a block names its file in a comment.
func shownFiles(all []block) map[string]string {
	out := map[string]string{}
	for _, b := range all {
		first, _, _ := strings.Cut(b.text, "\n")
		if name, _, _ := strings.Cut(strings.TrimPrefix(first, "# "), ":"); strings.HasSuffix(name, ".yaml") && name != first {
			out[name] = b.text
		}
		var value struct{ Name string }
		if json.NewDecoder(bytes.NewReader([]byte(b.text))).Decode(&value) == nil && value.Name != "" {
			out[value.Name+".json"] = b.text
		}
	}
	return out
}
