package config

import (
	"bytes"
	"testing"
)

// FuzzFile reads files: one that is accepted can be shown, and none breaks the reader.
func FuzzFile(f *testing.F) {
	var example bytes.Buffer
	if err := Example(&example); err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{
		example.String(), "", "---\n", "# only words\n", "log: &x {level: *x}", "slots: &s 5\nconnections: *s",
		"? [a]\n: b", "<<: {slots: 5}", "log: {log: {log: 1}}", "a: b\n---\nc: d",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := parseDocument("belfry.yaml", data)
		if err != nil {
			return
		}
		v, err := merge(d, nil)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := v.Show(&out, "json"); err != nil {
			t.Fatal(err)
		}
	})
}
