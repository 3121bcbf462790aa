package http_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/belfry-dev/belfry/internal/target/http"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

// TestMain searches for goroutines that the targets of all tests left behind. Tests run in parallel and
// each closes its own target, so only the end of all tests can show a leak.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leftBehind(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines were left behind:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leftBehind returns the stacks of connections and deliveries that do not end soon.
func leftBehind() string {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for n := 0; ; n++ {
		left := ""
		stacks := make([]byte, 1<<20)
		for one := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(one, "net/http.") || strings.Contains(one, "(*Target).Deliver") {
				left += one + "\n\n"
			}
		}
		if left == "" || n == 3000 {
			return left
		}
		<-again.C
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	targettest.Run(t, targettest.Suite{
		New: func(_ *testing.T, g targettest.Environment) targettest.Target {
			return http.New(http.Options{Guard: g.Guard, Secrets: g.Secrets})
		},
		Start: startServer,
	})
}
