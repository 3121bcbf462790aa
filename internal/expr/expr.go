package expr

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// The bounds.
const (
	MaxText    = 1024     // bytes of an expression or a template
	MaxResult  = 4096     // bytes of a result
	MaxPayload = 64 << 10 // bytes of a payload that expressions use

	// costLimit keeps one evaluation below ten times the reading of a payload of its largest size (TestBombs).
	costLimit = 20_000
	// What the estimate assumes about unknown values.
	usualList = 100  // elements of a list or an object in the payload
	usualText = 1000 // bytes of a string in the payload
)

// Scope is what an expression can use.
type Scope int

// The scopes.
const (
	OfRun     Scope = iota // values that are the same for all attempts
	OfAttempt              // also the attempt's number and the idempotency key
)

// Facts are the values that expressions use.
type Facts struct {
	Job            Job
	DueAt          time.Time
	RunID          string
	Payload        string // JSON; empty if there is none
	Attempt        int64
	IdempotencyKey string
}

// Job is what an expression can use about a job.
type Job struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Queue     string            `json:"queue"`
	Labels    map[string]string `json:"labels"`
}

// Error says what is wrong with an expression, and what to do about it.
type Error struct {
	Problem string
	Fix     string
}

func (e *Error) Error() string { return e.Problem + "; " + e.Fix }

const mayUse = "it may use job.id, job.name, job.namespace, job.queue, job.labels, due_at, run_id and payload"

// environments are created once, because that takes milliseconds.
var environments = [...]func() (*cel.Env, error){
	OfRun:     sync.OnceValues(func() (*cel.Env, error) { return newEnvironment(OfRun) }),
	OfAttempt: sync.OnceValues(func() (*cel.Env, error) { return newEnvironment(OfAttempt) }),
}

func newEnvironment(scope Scope) (*cel.Env, error) {
	// Regular expressions are compiled during evaluation, at a cost that CEL does not count.
	without := env.NewLibrarySubset().AddExcludedFunctions(env.NewFunction(overloads.Matches))
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(without)),
		// These are names with a dot, not an object, so that an unknown field is an error when the job is saved.
		cel.Variable("job.id", cel.StringType),
		cel.Variable("job.name", cel.StringType),
		cel.Variable("job.namespace", cel.StringType),
		cel.Variable("job.queue", cel.StringType),
		cel.Variable("job.labels", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("due_at", cel.TimestampType),
		cel.Variable("run_id", cel.StringType),
		cel.Variable("payload", cel.DynType),
		cel.DefaultUTCTimeZone(true), cel.CrossTypeNumericComparisons(true),
		cel.ParserRecursionLimit(50), cel.ParserErrorRecoveryLimit(1),
	}
	if scope == OfAttempt {
		options = append(options, cel.Variable("attempt", cel.IntType), cel.Variable("idempotency_key", cel.StringType))
	}
	return cel.NewCustomEnv(append(options, stringFunctions()...)...)
}

// Expression is a compiled expression. It is safe for concurrent use.
type Expression struct {
	program cel.Program
	scope   Scope
}

// Check reports whether an expression is valid, and keeps nothing of it: a user may check many without saving one. Its
// error is an *Error.
func Check(text string, scope Scope) error {
	k := cached{text, scope}
	if known.get(k) != nil {
		return nil
	}
	_, err := compile(k)
	return err
}

// Compile prepares an expression to be evaluated, and remembers it for the next time. Its error is an *Error.
func Compile(text string, scope Scope) (*Expression, error) {
	k := cached{text, scope}
	if found := known.get(k); found != nil {
		return found, nil
	}
	e, err := compile(k)
	if err == nil {
		known.put(k, e)
	}
	return e, err
}

func compile(c cached) (*Expression, error) {
	if len(c.text) > MaxText {
		return nil, &Error{fmt.Sprintf("%d bytes; at most %d are taken", len(c.text), MaxText), "shorten it"}
	}
	in, err := environments[c.scope]()
	if err != nil {
		return nil, &Error{"expressions cannot be read by this version: " + err.Error(), "report it to the project"}
	}
	ast, issues := in.Compile(c.text)
	if issues.Err() != nil {
		return nil, wrong(issues, c.scope)
	}
	if out := ast.OutputType(); !out.IsExactType(types.DynType) && !takes(out.Kind(), c.scope) {
		return nil, &Error{"it gives " + typeName(out.String()) + ", not a string", "write string(…) around it"}
	}
	estimate, err := in.EstimateCost(ast, usual{})
	if err != nil || estimate.Min > costLimit || estimate.Max > costLimit {
		return nil, &Error{
			"it may take too much work", "do without loops inside loops over the payload; let the receiver compute it",
		}
	}
	program, err := in.Program(ast, cel.CostTracking(usual{}), cel.CostLimit(costLimit),
		cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, &Error{"it cannot be evaluated: " + clean(err.Error()), mayUse}
	}
	return &Expression{program, c.scope}, nil
}

// takes reports whether a result of this kind is acceptable: a string or, in a template, a value with one obvious form.
func takes(kind types.Kind, scope Scope) bool {
	switch kind {
	case types.StringKind:
		return true
	case types.IntKind, types.UintKind, types.DoubleKind, types.BoolKind, types.TimestampKind:
		return scope == OfAttempt
	default:
		return false
	}
}

// wrong returns the first issue: the others often follow from it.
func wrong(issues *cel.Issues, scope Scope) *Error {
	all := issues.Errors()
	if len(all) == 0 {
		return &Error{clean(issues.Err().Error()), mayUse}
	}
	first := all[0]
	said := strings.TrimSuffix(first.Message, " (in container '')")
	fix := mayUse
	switch {
	case scope == OfRun && strings.Contains(said, "reference to 'attempt'"):
		fix = "a key that differs between attempts protects from nothing; " + mayUse
	case scope == OfAttempt:
		fix += ", attempt and idempotency_key"
	case strings.HasPrefix(said, "Syntax error"):
		fix = `write CEL, for example job.name + "/" + string(due_at); a fixed text needs quotes`
	}
	return &Error{fmt.Sprintf("column %d: %s", first.Location.Column()+1, clean(said)), fix}
}
