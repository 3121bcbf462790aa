package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"

	"github.com/knadh/koanf/maps"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// maxFile bounds the files that are read.
const maxFile = 1 << 20

// Source is where a value came from.
type Source struct {
	Kind string // default, file, environment, flag
	Name string // file and line, variable or flag; empty for a default
	path string // of the configuration file
}

func (s Source) String() string {
	if s.Name == "" {
		return s.Kind
	}
	return s.Kind + " " + s.Name
}

// layer is the settings of one kind of source, as text.
type layer struct {
	*koanf.Koanf
	source func(key string) Source
	weak   bool // weaker than the file
}

func newLayer(p koanf.Provider, source func(key string) Source) (layer, error) {
	l := layer{Koanf: koanf.New("."), source: source}
	return l, l.Load(p, nil)
}

// Flags adds a flag for each setting, or for the named ones. Their defaults only appear in the help: an unset flag has
// no effect.
func Flags(set *pflag.FlagSet, keys ...string) {
	wanted := map[string]bool{}
	for _, key := range keys {
		wanted[key] = true
	}
	set.String(FileKey, "", "configuration file, YAML (or "+envName(FileKey)+")")
	for _, f := range fields {
		if len(keys) == 0 || wanted[f.key] {
			flag := set.VarPF(&flagValue{text: f.fallback, kind: f.typeName()}, f.flag(), "",
				f.help+" (or "+f.env()+")")
			if f.typeName() == "bool" {
				flag.NoOptDefVal = "true" // --flag alone
			}
		}
	}
}

// flagValue stores the text of a flag. It is parsed together with the other sources.
type flagValue struct{ text, kind string }

func (v *flagValue) String() string     { return v.text }
func (v *flagValue) Type() string       { return v.kind }
func (v *flagValue) Set(s string) error { v.text = s; return nil }

func flagLayer(set *pflag.FlagSet) (layer, error) {
	keys := map[string]string{}
	for _, f := range fields {
		keys[f.flag()] = f.key
	}
	return newLayer(
		posflag.ProviderWithFlag(set, ".", nil, func(f *pflag.Flag) (string, any) {
			return keys[f.Name], f.Value.String()
		}),
		func(key string) Source { return Source{Kind: "flag", Name: "--" + flagName(key)} })
}

// envLayer reads the environment. An empty variable counts as not set. An unknown variable is not an error, because
// others may use the prefix (Kubernetes sets BELFRY_PORT for a service of that name), but a probable typing error
// causes a warning.
func envLayer(environ []string) (l layer, warnings []string, err error) {
	keys := map[string]string{}
	for _, f := range fields {
		keys[f.env()] = f.key
	}
	l, err = newLayer(env.Provider(".", env.Opt{
		Prefix: envPrefix, EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			key, ok := keys[name]
			if near := nearest(name, keys, 2); !ok && near != "" && name != envName(FileKey) {
				warnings = append(warnings,
					fmt.Sprintf("the environment variable %s is no setting; did you mean %s?", name, near))
			}
			if value == "" {
				return "", nil
			}
			return key, value
		},
	}), func(key string) Source { return Source{Kind: "environment", Name: envName(key)} })
	return l, warnings, err
}

// document is a configuration file: settings as strings, each with its line.
type document struct {
	name   string
	values map[string]any
	lines  map[string]int
	bad    problems
}

// Read and ReadBytes implement koanf.Provider.
func (d *document) Read() (map[string]any, error) { return maps.Unflatten(d.values, "."), nil }

// ReadBytes is not used.
func (d *document) ReadBytes() ([]byte, error) { return nil, errors.ErrUnsupported }

func (d *document) source(key string) Source {
	return Source{Kind: "file", Name: fmt.Sprintf("%s line %d", d.name, d.lines[key]), path: d.name}
}

func readDocument(name string) (*document, error) {
	data, err := readBounded(name)
	if err != nil {
		return nil, fmt.Errorf("read the configuration file: %w", err)
	}
	return parseDocument(name, data)
}

func parseDocument(name string, data []byte) (*document, error) {
	d := &document{name: name, values: map[string]any{}, lines: map[string]int{}}
	reader := yaml.NewDecoder(bytes.NewReader(data))
	var root yaml.Node
	err := reader.Decode(&root)
	switch {
	case errors.Is(err, io.EOF): // empty, or comments only
		return d, nil
	case err != nil:
		return nil, fmt.Errorf("%s is not YAML: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if !errors.Is(reader.Decode(&yaml.Node{}), io.EOF) {
		return nil, fmt.Errorf("%s has more than one document; remove what follows the line ---", name)
	}
	d.walk(root.Content[0], "")
	return d, nil
}

func readBounded(name string) ([]byte, error) {
	file, err := os.Open(name) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("it is larger than 1 MB")}
	}
	return data, err
}

func (d *document) complain(n *yaml.Node, format string, args ...any) {
	d.bad = append(d.bad, fmt.Sprintf(format, args...)+fmt.Sprintf(" (%s line %d)", d.name, n.Line))
}

// walk collects the settings of a mapping.
func (d *document) walk(n *yaml.Node, prefix string) {
	if n.Kind != yaml.MappingNode {
		if n.Tag != "!!null" {
			d.complain(n, "%s: want settings, each as name: value", orRoot(prefix))
		}
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		key := prefix + name.Value
		_, known := lookup(key)
		switch {
		case !known && isSection(key):
			d.walk(value, key+".")
		case !known:
			d.complain(name, "%s: unknown setting%s", printable(key), suggestion(key))
		case d.lines[key] != 0:
			d.complain(name, "%s: set twice, first on line %d", key, d.lines[key])
		case value.Kind != yaml.ScalarNode:
			d.complain(value, "%s: want one value", key)
		case value.Tag != "!!null": // an empty value counts as not set
			d.values[key], d.lines[key] = value.Value, value.Line
		}
	}
}

// printable is the name of an unknown setting, unless it looks like a misplaced value, which may be secret.
func printable(key string) string {
	if len(key) > 60 || strings.ContainsFunc(key, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
	}) {
		return "a line that is not name: value"
	}
	return key
}

func orRoot(prefix string) string {
	if prefix == "" {
		return "the file"
	}
	return strings.TrimSuffix(prefix, ".")
}

func isSection(key string) bool {
	for _, f := range fields {
		if strings.HasPrefix(f.key, key+".") {
			return true
		}
	}
	return false
}
