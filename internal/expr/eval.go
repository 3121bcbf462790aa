package expr

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Text evaluates the expression. Errors are for the job's author.
func (e *Expression) Text(f *Facts) (string, error) {
	out, _, err := e.program.Eval(&facts{Facts: f})
	if err != nil {
		return "", failed(err)
	}
	if types.IsError(out) {
		return "", failed(fmt.Errorf("%v", out))
	}
	if kinds, ok := out.Type().(*types.Type); ok && takes(kinds.Kind(), e.scope) {
		out = out.ConvertToType(types.StringType)
	}
	text, ok := out.(types.String)
	switch {
	case !ok:
		return "", fmt.Errorf("its result is %s, not a string; write string(…) around it", typeName(out.Type().TypeName()))
	case len(text) > MaxResult:
		return "", fmt.Errorf("it gave %d bytes; at most %d are taken", len(text), MaxResult)
	case !utf8.ValidString(string(text)):
		return "", errors.New("it gave bytes that are no text (UTF-8)")
	}
	return string(text), nil
}

func failed(err error) error {
	said := err.Error()
	switch {
	case strings.Contains(said, "cost limit"):
		return errors.New("it takes too much work for this payload; make it simpler, or send less")
	case strings.HasPrefix(said, "no such key: "):
		return fmt.Errorf("the payload or the labels have no %s; send it, or write has(…) ? … : …",
			clean(strings.TrimPrefix(said, "no such key: ")))
	}
	return errors.New(clean(said))
}

// facts are resolved when CEL asks for them, so a payload is decoded only for expressions that use it.
type facts struct {
	*Facts
	payload ref.Val
}

// Parent is for CEL: there is none.
func (*facts) Parent() cel.Activation { return nil }

// ResolveName is for CEL.
func (f *facts) ResolveName(name string) (any, bool) {
	switch name {
	case "job.id":
		return f.Job.ID, true
	case "job.name":
		return f.Job.Name, true
	case "job.namespace":
		return f.Job.Namespace, true
	case "job.queue":
		return f.Job.Queue, true
	case "job.labels":
		return f.Job.Labels, true
	case "due_at":
		return f.DueAt, true
	case "run_id":
		return f.RunID, true
	case "attempt":
		return f.Attempt, true
	case "idempotency_key":
		return f.IdempotencyKey, true
	case "payload":
		if f.payload == nil {
			f.payload = decode(f.Payload)
		}
		return f.payload, true
	default:
		return nil, false
	}
}

// typeName translates CEL's name of a type for users.
func typeName(name string) string {
	switch name {
	case "int", "uint", "double":
		return "a number"
	case "bool":
		return "true or false"
	case "google.protobuf.Timestamp", "timestamp":
		return "a time"
	case "google.protobuf.Duration", "duration":
		return "a duration"
	case "null_type":
		return "null"
	case "bytes":
		return "bytes"
	default:
		if strings.HasPrefix(name, "list") {
			return "a list"
		}
		return "an object"
	}
}

// clean makes a message of CEL fit for users: one line, printable, bounded.
func clean(text string) string {
	const limit = 200
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) > limit {
		end := limit
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + "…"
	}
	return text
}
