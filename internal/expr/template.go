package expr

import (
	"fmt"
	"strings"
)

// maxParts is the maximum number of expressions in a template.
const maxParts = 8

// Template is a string with expressions in ${…}, for example orders.${payload.region}. $${ stands for ${ itself. It has
// the text of its expressions only, so that the cache bounds the memory of those that are compiled.
type Template struct {
	parts []part
}

// part is an expression or a plain text.
type part struct {
	text       string
	expression bool
}

// ParseTemplate checks a template. Its error is an *Error.
func ParseTemplate(text string) (*Template, error) {
	if len(text) > MaxText {
		return nil, &Error{fmt.Sprintf("%d bytes; at most %d are taken", len(text), MaxText), "shorten it"}
	}
	t := &Template{}
	var plain strings.Builder
	for rest := text; rest != ""; {
		i := strings.Index(rest, "${")
		if i < 0 {
			plain.WriteString(rest)
			break
		}
		if i > 0 && rest[i-1] == '$' {
			plain.WriteString(rest[:i-1] + "${")
			rest = rest[i+2:]
			continue
		}
		end := closing(rest[i+2:])
		if end < 0 {
			return nil, &Error{"a ${ has no }", "close it, or write $${ for the characters themselves"}
		}
		expression := rest[i+2 : i+2+end]
		if err := Check(expression, OfAttempt); err != nil {
			return nil, err
		}
		plain.WriteString(rest[:i])
		t.parts = append(t.parts, part{text: plain.String()}, part{text: expression, expression: true})
		plain.Reset()
		rest = rest[i+2+end+1:]
		if len(t.parts) > 2*maxParts {
			return nil, &Error{fmt.Sprintf("more than %d expressions", maxParts), "put parts together with +"}
		}
	}
	if plain.Len() > 0 {
		t.parts = append(t.parts, part{text: plain.String()})
	}
	return t, nil
}

// closing finds the } that ends an expression, past those in strings and objects.
func closing(s string) int {
	depth := 0
	var quote byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case c == '}':
			return i
		}
	}
	return -1
}

// Plain reports whether the template has no expressions.
func (t *Template) Plain() bool {
	for _, p := range t.parts {
		if p.expression {
			return false
		}
	}
	return true
}

// Text evaluates the template. Errors are for the job's author.
func (t *Template) Text(f *Facts) (string, error) {
	if len(t.parts) == 1 && !t.parts[0].expression {
		return t.parts[0].text, nil
	}
	var b strings.Builder
	for _, p := range t.parts {
		text := p.text
		if p.expression {
			e, err := Compile(p.text, OfAttempt)
			if err == nil {
				text, err = e.Text(f)
			}
			if err != nil {
				return "", err
			}
		}
		if b.Len()+len(text) > MaxResult {
			return "", fmt.Errorf("it gave more than %d bytes", MaxResult)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
