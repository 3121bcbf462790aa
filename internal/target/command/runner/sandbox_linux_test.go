package runner

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// bwrap may report that the command was killed before it is killed itself. The reason is why the runner killed it.
func TestResultOfAKilledCommand(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cause error
		code  int
		want  Result
	}{
		"timeout":                    {context.DeadlineExceeded, 137, Result{End: TimedOut}},
		"stop":                       {errStopped, 137, Result{End: Stopped}},
		"limit":                      {limitError("much"), 137, Result{End: TooMuch, Detail: "much"}},
		"killed by itself":           {nil, 137, Result{End: Exited, Code: 137}},
		"ended just before the kill": {context.DeadlineExceeded, 3, Result{End: Exited, Code: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			if test.cause != nil {
				cancel(test.cause)
			}
			defer cancel(nil)
			code := make(chan int, 1)
			code <- test.code
			require.Equal(t, test.want, result(ctx, nil, code, ""))
		})
	}
}
