package expr_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/expr"
)

func facts() *expr.Facts {
	return &expr.Facts{
		Job: expr.Job{
			ID: "job_1", Name: "invoices", Namespace: "default", Queue: "bulk",
			Labels: map[string]string{"team": "billing", "a/b": "c"},
		},
		DueAt: time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC), RunID: "run_1", Attempt: 2, IdempotencyKey: "key_1",
		Payload: `{"order": 12345678, "big": 123456789012345678901234567890, "part": 1.5, "customer": {"id": "c-7"}, ` +
			`"items": [1, 2, 3], "text": "ä", "nothing": null}`,
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`run_id`:                                                 "run_1",
		`"fixed"`:                                                "fixed",
		`job.name + "/" + string(due_at)`:                        "invoices/2026-03-29T01:30:00Z",
		`job.id + job.namespace + job.queue`:                     "job_1defaultbulk",
		`job.labels.team + job.labels["a/b"]`:                    "billingc",
		`string(payload.order)`:                                  "12345678",
		`string(payload.part)`:                                   "1.5",
		`string(payload.items.size())`:                           "3",
		`payload.customer.id + payload.text`:                     "c-7ä",
		`has(payload.none) ? payload.none : "-"`:                 "-",
		`string(due_at.getFullYear())`:                           "2026",
		`string(due_at.getHours("Europe/Berlin"))`:               "3",
		`job.name.substring(1, 3) + job.name.substring(6)`:       "nves",
		`job.name.replace("i", "Ü").lowerAscii() + " x ".trim()`: "ÜnvoÜcesx",
		`job.name.upperAscii()`:                                  "INVOICES",
		`payload.order > 5 ? "many" : "few"`:                     "many",
	} {
		e, err := expr.Compile(text, expr.OfRun)
		require.NoError(t, err, text)
		got, err := e.Text(facts())
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	e, err := expr.Compile(`string(attempt) + idempotency_key`, expr.OfAttempt)
	require.NoError(t, err)
	got, err := e.Text(facts())
	require.NoError(t, err)
	require.Equal(t, "2key_1", got)
}

// Saving reports what is wrong, with how to fix it.
func TestCompileProblems(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                             "Syntax error",
		`job.`:                         "Syntax error",
		`nightly report`:               "Syntax error",
		`job.nmae`:                     "(did you mean 'job.name'?)",
		`attempt`:                      "undeclared reference to 'attempt'",
		`string(attempt)`:              "undeclared reference to 'attempt'",
		`due_at`:                       "it gives a time, not a string",
		`1 + 1`:                        "it gives a number, not a string",
		`true`:                         "it gives true or false",
		`[run_id]`:                     "it gives a list",
		`job.labels`:                   "it gives an object",
		`run_id + 1`:                   "no matching overload",
		`now()`:                        "undeclared reference to 'now'",
		strings.Repeat("a", 1025):      "1025 bytes; at most 1024",
		strings.Repeat("(", 200) + "1": "expression recursion limit exceeded",
		"\"\x00\xff":                   "Syntax error",
	} {
		_, err := expr.Compile(text, expr.OfRun)
		var e *expr.Error
		require.ErrorAs(t, err, &e, text)
		require.Contains(t, e.Problem, want, text)
		require.NotEmpty(t, e.Fix, text)
	}
}

// What goes wrong at run time is an error, never a default.
func TestTextProblems(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`payload.none`:                           "have no none",
		`payload.customer.x.y`:                   "have no x",
		`job.labels.none`:                        "have no none",
		`payload.order`:                          "result is a number",
		`payload.nothing`:                        "result is null",
		`payload.items`:                          "result is a list",
		`payload.customer`:                       "result is an object",
		`string(1 / (payload.order - 12345678))`: "division by zero",
	} {
		e, err := expr.Compile(text, expr.OfRun)
		require.NoError(t, err, text)
		_, err = e.Text(facts())
		require.ErrorContains(t, err, want, text)
	}
	f := facts()
	f.Payload = `{"x": "` + strings.Repeat("x", 5000) + `"}`
	e, err := expr.Compile(`payload.x`, expr.OfRun)
	require.NoError(t, err)
	_, err = e.Text(f)
	require.ErrorContains(t, err, "5000 bytes; at most 4096")
	f.Payload = ""
	_, err = e.Text(f)
	require.Error(t, err, "no payload has no fields")
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				e, err := expr.Compile(`payload.customer.id + run_id`, expr.OfRun)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := e.Text(facts()); got != "c-7run_1" || err != nil {
					t.Error(got, err)
				}
			}
		})
	}
	all.Wait()
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                                  "",
		`orders`:                            "orders",
		`orders.${payload.customer.id}.new`: "orders.c-7.new",
		`${run_id}${attempt}`:               "run_12",
		`${payload.order}/${due_at}/${payload.order > 1}`: "12345678/2026-03-29T01:30:00Z/true",
		`${"}" + '}' + {"a": "{"}.a + "\"}"}`:             `}}{"}`,
		`a$${b}`:                                          "a${b}",
		`$${${run_id}`:                                    "${run_1",
		`$5 {}`:                                           "$5 {}",
	} {
		tpl, err := expr.ParseTemplate(text)
		require.NoError(t, err, text)
		got, err := tpl.Text(facts())
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	plain, err := expr.ParseTemplate("orders $${x}")
	require.NoError(t, err)
	require.True(t, plain.Plain())
	for text, want := range map[string]string{
		`${run_id`:                     "a ${ has no }",
		`${`:                           "a ${ has no }",
		`${}`:                          "Syntax error",
		`${[due_at]}`:                  "it gives a list",
		strings.Repeat("${run_id}", 9): "more than 8 expressions",
		strings.Repeat("x", 1025):      "1025 bytes",
	} {
		_, err := expr.ParseTemplate(text)
		var e *expr.Error
		require.ErrorAs(t, err, &e, text)
		require.Contains(t, e.Problem, want, text)
	}
	tpl, err := expr.ParseTemplate("x${payload.none}")
	require.NoError(t, err)
	_, err = tpl.Text(facts())
	require.ErrorContains(t, err, "have no none")
}
