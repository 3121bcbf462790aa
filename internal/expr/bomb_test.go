package expr_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/expr"
)

// bombs are expressions that a hostile author would try.
var bombs = []string{
	`string(payload.l.map(a, payload.l.map(b, payload.l.map(c, a))).size())`,
	`string(payload.l.all(a, payload.l.all(b, payload.l.all(c, c == c))))`,
	`string(payload.l.exists(a, payload.l.exists(b, a == "never" + b)))`,
	`payload.l.map(a, payload.s).join(payload.s)`,
	`payload.s.replace("x", payload.s)`,
	`payload.t.replace("x", payload.t)`,
	`payload.t.replace("x", payload.t.replace("x", payload.t))`,
	`payload.l.map(a, payload.s + payload.s)[0]`,
	`string(payload.l.map(a, payload.t.lowerAscii()).size())`,
	`string(payload.l.map(a, timestamp(a)).size())`,
	`string(payload.l.filter(a, a.matches("^(a?){500}a{500}$")).size())`,
	`string(payload.s.contains(payload.s.substring(1)))`,
	`string(payload.s.contains(payload.t))`,
	`payload.s.replace("", payload.s).replace("", payload.s)`,
	`string(payload.s.matches("(x+x+)+y"))`,
	`string(payload.s.matches(payload.s))`,
	`string(payload.s.matches("(((x{100}){100}){100})"))`,
	`string(payload.s.split("").map(a, payload.s.split("")).size())`,
	`payload.s.split("").join(payload.s)`,
	`string([payload, payload, payload] == [payload, payload, payload])`,
	`string((payload.l + payload.l).all(a, (payload.l + payload.l) == (payload.l + payload.l)))`,
	`"%.1000000000f".format([1.5])`,
	`"%s%s%s%s".format([payload.l, payload.l, payload.l, payload.l])`,
	`string(payload.l.all(a, payload == payload))`,
	`string(payload.l.all(a, a.matches("^x[0-9]{2,900}")))`,
	`string(payload.l.all(a, payload.l in [payload.l]))`,
	`string(payload.l.all(a, !(a in job.labels)))`,
	`string(payload.l.all(a, {a: payload, "b": payload} != {}))`,
	`string(payload.l.all(a, duration(string(size(a)) + "s") < duration("1h")))`,
	`payload.s + payload.s + payload.s + payload.s + payload.s`,
	`string(size(payload.s.reverse() + payload.s.reverse()))`,
	`string([1,2,3,4,5,6,7,8,9,0].map(a, [1,2,3,4,5,6,7,8,9,0].map(b, [1,2,3,4,5,6,7,8,9,0].map(c, ` +
		`[1,2,3,4,5,6,7,8,9,0].map(d, [1,2,3,4,5,6,7,8,9,0].map(e, [1,2,3,4,5,6,7,8,9,0].map(f, f)))))).size())`,
	strings.Repeat("(", 500) + "run_id" + strings.Repeat(")", 500),
	strings.Repeat("!", 900) + "true",
	`payload` + strings.Repeat(".a", 500),
	`payload` + strings.Repeat("[0]", 300),
	strings.Repeat("[", 400) + strings.Repeat("]", 400),
	strings.Repeat(`run_id+`, 140) + `run_id`,
	strings.Repeat(`true ? `, 140) + `run_id`,
	"\"" + strings.Repeat("\\u0000", 160) + "\"",
}

// limit of one evaluation, and of one check. The race detector makes all about ten times slower.
const limit = 5 * time.Millisecond

// Each bomb is rejected when it is saved or stopped when it is evaluated. Neither takes long, whatever the payload.
func TestBombs(t *testing.T) {
	texts := make([]string, 3_000)
	for i := range texts {
		texts[i] = fmt.Sprintf("x%06d", i)
	}
	payload, err := json.Marshal(map[string]any{
		"l": texts, "s": strings.Repeat("x", 25_000), "t": strings.Repeat("x", 4000),
	})
	require.NoError(t, err)
	require.LessOrEqual(t, len(payload), expr.MaxPayload)
	f := facts()
	f.Payload = string(payload)
	warm, err := expr.Compile(`string(payload.s == "")`, expr.OfRun)
	require.NoError(t, err)
	_, err = warm.Text(f)
	require.NoError(t, err)
	plain := quickest(func() { _, _ = warm.Text(f) }) // the cost of decoding such a payload
	refused, stopped := 0, 0
	for _, bomb := range bombs {
		var e *expr.Expression
		var err error
		took := quickest(func() { e, err = expr.Compile(bomb, expr.OfRun) })
		require.Less(t, took, slower*2*limit, "compile %.60s", bomb)
		if err != nil {
			refused++
			continue
		}
		took = quickest(func() { _, err = e.Text(f) })
		if err != nil {
			stopped++
		}
		t.Logf("%8s: %.70s: %v", took, bomb, err)
		require.Less(t, took, slower*limit, "evaluate %.60s", bomb)
	}
	t.Logf("%d bombs: %d refused when saved, %d stopped when evaluated, %d harmless; reading the payload takes %s",
		len(bombs), refused, stopped, len(bombs)-refused-stopped, plain)
	require.Positive(t, stopped)
	require.Positive(t, refused)
}

// quickest returns the shortest CPU time of a few calls. The machine may be busy with something else.
func quickest(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := time.Hour
	for range 10 {
		began := used()
		f()
		best = min(best, used()-began)
	}
	return best
}

// used is the CPU time of this thread.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func FuzzCompile(f *testing.F) {
	for _, bomb := range bombs {
		f.Add(bomb)
	}
	f.Add(`job.name + "/" + string(due_at)`)
	facts := facts()
	f.Fuzz(func(t *testing.T, text string) {
		for _, scope := range []expr.Scope{expr.OfRun, expr.OfAttempt} {
			e, err := expr.Compile(text, scope)
			if err != nil {
				var told *expr.Error
				require.ErrorAs(t, err, &told)
				require.NotEmpty(t, told.Fix)
				continue
			}
			if got, err := e.Text(facts); err == nil {
				require.LessOrEqual(t, len(got), expr.MaxResult)
			}
		}
		if tpl, err := expr.ParseTemplate(text); err == nil {
			_, _ = tpl.Text(facts)
		}
	})
}
