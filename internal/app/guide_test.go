package app

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/server/jobs"
)

var (
	reasonConst = regexp.MustCompile(`Reason\w+ +Reason = "(\w+)"`)
	tableRow    = regexp.MustCompile("(?m)^\\| (`[^|]*) \\|")
	codeSpan    = regexp.MustCompile("`([^`]+)`")
)

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
