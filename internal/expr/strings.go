package expr

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// stringFunctions are a few of those in CEL's own extension. That extension counts the cost of a call only
// afterwards: payload.s.replace("x", payload.s) took 3 s and 3.6 GB before it was stopped.
func stringFunctions() []cel.EnvOption {
	text, number := cel.StringType, cel.IntType
	one := func(name string, do func(string) string) cel.EnvOption {
		call := func(v ref.Val) ref.Val {
			s, bad := short(v)
			if bad != nil {
				return bad
			}
			return types.String(do(s))
		}
		return cel.Function(name,
			cel.MemberOverload("belfry_"+name, []*cel.Type{text}, text, cel.UnaryBinding(call)))
	}
	return []cel.EnvOption{
		one("lowerAscii", func(s string) string { return strings.Map(lower, s) }),
		one("upperAscii", func(s string) string { return strings.Map(upper, s) }),
		one("trim", strings.TrimSpace),
		cel.Function("replace",
			cel.MemberOverload("belfry_replace", []*cel.Type{text, text, text}, text, cel.FunctionBinding(replace))),
		cel.Function("substring",
			cel.MemberOverload("belfry_substring_from", []*cel.Type{text, number}, text,
				cel.FunctionBinding(substring)),
			cel.MemberOverload("belfry_substring", []*cel.Type{text, number, number}, text,
				cel.FunctionBinding(substring))),
	}
}

// short returns a string that is short enough for these functions, or an error.
func short(v ref.Val) (string, ref.Val) {
	s, ok := v.(types.String)
	switch {
	case !ok:
		return "", types.MaybeNoSuchOverloadErr(v)
	case len(s) > MaxResult:
		return "", types.NewErr("a string has %d bytes; functions accept at most %d", len(s), MaxResult)
	default:
		return string(s), nil
	}
}

func replace(args ...ref.Val) ref.Val {
	var s [3]string
	for i := range s {
		var bad ref.Val
		if s[i], bad = short(args[i]); bad != nil {
			return bad
		}
	}
	if n := strings.Count(s[0], s[1]); len(s[0])+n*(len(s[2])-len(s[1])) > MaxResult {
		return types.NewErr("a string would have more than %d bytes", MaxResult)
	}
	return types.String(strings.ReplaceAll(s[0], s[1], s[2]))
}

// substring counts characters, as CEL's does.
func substring(args ...ref.Val) ref.Val {
	s, bad := short(args[0])
	if bad != nil {
		return bad
	}
	characters := []rune(s)
	from, ok := args[1].(types.Int)
	to := types.Int(len(characters))
	if len(args) > 2 && ok {
		to, ok = args[2].(types.Int)
	}
	if !ok || from < 0 || to < from || int64(to) > int64(len(characters)) {
		return types.NewErr("substring: the text has %d characters", len(characters))
	}
	return types.String(characters[from:to])
}

func lower(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

func upper(r rune) rune {
	if r >= 'a' && r <= 'z' {
		return r - 'a' + 'A'
	}
	return r
}
