package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/jobs"
	"github.com/belfry-dev/belfry/internal/target"
)

var (
	jsonBlock   = regexp.MustCompile("(?s)```json\n(.*?)```")
	reasonConst = regexp.MustCompile(`Reason\w+ +Reason = "(\w+)"`)
	tableRow    = regexp.MustCompile("(?m)^\\| (`[^|]*) \\|")
	codeSpan    = regexp.MustCompile("`([^`]+)`")
)

// TestJobsOfTheGuides: each job that a guide shows as JSON would be created.
func TestJobsOfTheGuides(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../docs/guide/*.md")
	require.NoError(t, err)
	targets, found := target.New(target.Options{}), 0
	for _, name := range files {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, block := range jsonBlock.FindAllStringSubmatch(string(page), -1) {
			var fields map[string]json.RawMessage
			err := json.Unmarshal([]byte(block[1]), &fields)
			if err != nil || fields["schedule"] == nil || fields["target"] == nil {
				continue // part of one, or something else
			}
			found++
			d := json.NewDecoder(strings.NewReader(block[1]))
			d.DisallowUnknownFields()
			var def job.Definition
			require.NoError(t, d.Decode(&def), "%s: %s", name, block[1])
			require.NoError(t, def.Validate(), "%s: %s", name, block[1])
			kind := targets[def.Target.Kind]
			require.NotNil(t, kind, "%s: %s", name, def.Target.Kind)
			require.NoError(t, kind.Check(def.Target.Config), "%s: %s", name, block[1])
		}
	}
	require.GreaterOrEqual(t, found, 5, "the pattern does not find the jobs any more")
}

// TestEachPolicyIsExplained: docs/guide/policies.md names each field of a job and
// each reason, and no field that there is not.
func TestEachPolicyIsExplained(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/guide/policies.md")
	require.NoError(t, err)
	page := string(text)
	fields := map[string]bool{}
	fieldsOf(fields, reflect.TypeFor[jobs.JobInput](), "")
	require.Greater(t, len(fields), 30)
	for name := range fields {
		//nolint:testifylint // Contains would print the page
		require.True(t, strings.Contains(page, "`"+name+"`"), "the field %s is not in docs/guide/policies.md", name)
	}
	source, err := os.ReadFile("../job/run.go")
	require.NoError(t, err)
	reasons := reasonConst.FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(reasons), 15)
	for _, r := range reasons {
		//nolint:testifylint // Contains would print the page
		require.True(t, strings.Contains(page, "`"+r[1]+"`"), "the reason %s is not in docs/guide/policies.md", r[1])
	}
	// What stands in a table with a dot in it is a field.
	for _, row := range tableRow.FindAllStringSubmatch(page, -1) {
		for _, span := range codeSpan.FindAllStringSubmatch(row[1], -1) {
			if strings.Contains(span[1], ".") {
				require.True(t, fields[span[1]], "docs/guide/policies.md has a field %s, and a job has not", span[1])
			}
		}
	}
}

// fieldsOf lists the fields of a type by their paths; those of lists are not fields of a job.
func fieldsOf(out map[string]bool, of reflect.Type, path string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of.Name() == "Time" {
		if path != "" {
			out[path] = true
		}
		return
	}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			fieldsOf(out, f.Type, path)
		case path == "":
			fieldsOf(out, f.Type, name)
		default:
			fieldsOf(out, f.Type, path+"."+name)
		}
	}
}
