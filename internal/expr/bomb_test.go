package expr_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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

// An evaluation of a bomb, and its compilation, take at most this many times as long as the plainest expression about the same
// payload, which is read as a whole. A machine on which all is slow does not change that.
const (
	evaluation  = 10
	compilation = 20
)

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
	plain := func() { _, _ = warm.Text(f) }
	refused, stopped := 0, 0
	for _, bomb := range bombs {
		var e *expr.Expression
		var err error
		took := ratio(compilation, plain, func() { e, err = expr.Compile(bomb, expr.OfRun) })
		require.LessOrEqual(t, took, float64(compilation), "compile %.60s", bomb)
		if err != nil {
			refused++
			continue
		}
		took = ratio(evaluation, plain, func() { _, err = e.Text(f) })
		if err != nil {
			stopped++
		}
		t.Logf("%6.1f × plain: %.70s: %v", took, bomb, err)
		require.LessOrEqual(t, took, float64(evaluation), "evaluate %.60s", bomb)
	}
	t.Logf("%d bombs: %d refused when saved, %d stopped when evaluated, %d harmless",
		len(bombs), refused, stopped, len(bombs)-refused-stopped)
	require.Positive(t, stopped)
	require.Positive(t, refused)
}

// ratio returns how many times as long f takes as plain, by the shortest CPU times of both, which are called in turn until
// that is at most enough, or fifty times. The machine may be busy with something else during some of them.
func ratio(enough float64, plain, f func()) float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a, b := time.Hour, time.Hour
	for i := range 50 {
		a, b = min(a, cpu(plain)), min(b, cpu(f))
		if i >= 4 && float64(b) <= enough*float64(a) {
			break
		}
	}
	return float64(b) / float64(a)
}

// cpu is the CPU time of this thread that f takes.
func cpu(f func()) time.Duration {
	began := used()
	f()
	return used() - began
}

// used is the CPU time of this thread.
func used() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
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
