// Package yamljson converts between YAML, which people write, and JSON, which the API takes.
//
// Both directions keep the order of fields and each number as it was written. A date stays a string,
// where YAML would make it a time.
package yamljson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ToYAML converts JSON to YAML.
func ToYAML(raw []byte) ([]byte, error) {
	n, err := Node(raw)
	if err != nil {
		return nil, err
	}
	return Encode(n)
}

// Encode formats a YAML node as text.
func Encode(n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

// Node parses JSON into a YAML node.
func Node(raw []byte) (*yaml.Node, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	n, err := nextNode(d)
	if err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	return n, nil
}

func nextNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	scalar := func(tag, text string) (*yaml.Node, error) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}, nil
	}
	switch v := token.(type) {
	case json.Delim:
		return container(d, v)
	case string:
		n := &yaml.Node{}
		return n, n.Encode(v) // quotes what older readers would misread, such as "no"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return scalar("!!float", v.String())
		}
		return scalar("!!int", v.String())
	case bool:
		return scalar("!!bool", fmt.Sprint(v))
	}
	return scalar("!!null", "null")
}

func container(d *json.Decoder, open json.Delim) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if open == '{' {
		n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	for d.More() {
		part, err := nextNode(d) // a mapping alternates keys and values
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, part)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle // {} and []
	}
	_, err := d.Token()
	return n, err
}

// maxDepth and maxNodes limit how much aliases of aliases can expand to.
const (
	maxDepth = 64
	maxNodes = 1_000_000
)

// ToJSON converts a YAML node to JSON.
func ToJSON(n *yaml.Node) ([]byte, error) {
	w := jsonWriter{}
	if err := w.write(n, 0); err != nil {
		return nil, err
	}
	return w.b.Bytes(), nil
}

type jsonWriter struct {
	b     bytes.Buffer
	nodes int
}

func (w *jsonWriter) write(n *yaml.Node, depth int) error {
	if w.nodes++; depth > maxDepth || w.nodes > maxNodes {
		return fmt.Errorf("line %d: it is too deep or too large; do its aliases contain each other?", n.Line)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return w.write(n.Content[0], depth)
	case yaml.AliasNode:
		return w.write(n.Alias, depth+1)
	case yaml.SequenceNode:
		return w.list(n, depth)
	case yaml.MappingNode:
		return w.object(n, depth)
	case yaml.ScalarNode:
		return w.scalar(n)
	}
	return fmt.Errorf("line %d: it cannot be read", n.Line)
}

func (w *jsonWriter) list(n *yaml.Node, depth int) error {
	w.b.WriteByte('[')
	for i, item := range n.Content {
		if i > 0 {
			w.b.WriteByte(',')
		}
		if err := w.write(item, depth+1); err != nil {
			return err
		}
	}
	w.b.WriteByte(']')
	return nil
}

func (w *jsonWriter) object(n *yaml.Node, depth int) error {
	w.b.WriteByte('{')
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode:
			return fmt.Errorf("line %d: a key must be a string", key.Line)
		case key.ShortTag() == "!!merge":
			return fmt.Errorf("line %d: << is not supported; write the fields, or use an alias as a value", key.Line)
		case seen[key.Value]:
			return fmt.Errorf("line %d: %s is there twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		if i > 0 {
			w.b.WriteByte(',')
		}
		name, err := json.Marshal(key.Value)
		if err != nil {
			return err
		}
		w.b.Write(name)
		w.b.WriteByte(':')
		if err := w.write(n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	w.b.WriteByte('}')
	return nil
}

func (w *jsonWriter) scalar(n *yaml.Node) error {
	var v any
	switch n.ShortTag() {
	case "!!null":
	case "!!bool", "!!float":
		if json.Valid([]byte(n.Value)) {
			w.b.WriteString(n.Value)
			return nil
		}
		if err := n.Decode(&v); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
	case "!!int":
		if json.Valid([]byte(n.Value)) { // as it was written: -0 stays -0
			w.b.WriteString(n.Value)
			return nil
		}
		i, ok := new(big.Int).SetString(strings.ReplaceAll(n.Value, "_", ""), 0)
		if !ok {
			return fmt.Errorf("line %d: %s is not a number; put it in quotes if it is a string", n.Line, n.Value)
		}
		w.b.WriteString(i.String())
		return nil
	case "!!str", "!!timestamp":
		v = n.Value
	default:
		return fmt.Errorf("line %d: %s is not supported", n.Line, n.Tag)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err) // .inf and .nan
	}
	w.b.Write(text)
	return nil
}

// DecodeObject decodes a JSON object and keeps numbers as they were written.
func DecodeObject(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	o := map[string]any{}
	if err := d.Decode(&o); err != nil {
		return nil, fmt.Errorf("it is not an object: %w", err)
	}
	return o, nil
}

// Documents reads all documents of a YAML file.
func Documents(r io.Reader) (out []*yaml.Node, err error) {
	d := yaml.NewDecoder(r)
	for {
		var n yaml.Node
		switch err := d.Decode(&n); {
		case err == io.EOF: //nolint:errorlint // the decoder never wraps it
			return out, nil
		case err != nil:
			return nil, err
		}
		out = append(out, &n)
	}
}
