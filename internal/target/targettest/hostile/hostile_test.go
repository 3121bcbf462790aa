package hostile_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/target/targettest/hostile"
)

// Limits of what an attack may cost a node.
const (
	maxGrowth = 64 << 10               // kB
	maxCPU    = 500 * time.Millisecond // while it is attacked, and after it: see clocktest.Allow and tries
	maxLeft   = 0                      // goroutines
	maxSent   = 64 << 20               // bytes that the server got rid of
	atOnce    = 4                      // attacks
	tries     = 5                      // per attack, if only CPU time is too much: time that others steal is part of it
)

func TestMain(m *testing.M) {
	if order := os.Getenv("BELFRY_HOSTILE_ORDER"); order != "" {
		deliver(order)
		return
	}
	os.Exit(m.Run())
}

// row is the result of one attack.
type row struct {
	attack *hostile.Attack
	tls    bool
	report report
	sent   int64
	err    error
	judged bool   // as ok, just after the attack
	text   string // what the process printed, if it failed
}

func (r *row) ok() bool { return r.whole() && r.cheap() }

func (r *row) whole() bool {
	return r.err == nil && r.report.Growth <= slowdown*maxGrowth && r.report.Left <= maxLeft && r.sent <= maxSent
}

func (r *row) cheap() bool {
	cpu := slowdown * clocktest.Allow(maxCPU)
	return r.report.During <= cpu && r.report.After <= cpu
}

func (r *row) String() string {
	alive, transport := "alive", "plain"
	if r.err != nil {
		alive = "dead"
	}
	if r.tls {
		transport = "TLS"
	}
	return fmt.Sprintf("%-6s %-5s %-46s %-5s %6d kB %6d ms %6d ms %4d %6d kB  %s", r.attack.Kind, transport, r.attack.Name,
		alive, r.report.Growth, r.report.During.Milliseconds(), r.report.After.Milliseconds(), r.report.Left,
		r.sent>>10, r.report.Message)
}

// TestHostile runs the attacks, each against a process of its own: the worst ones, or all with HOSTILE=all.
func TestHostile(t *testing.T) {
	t.Parallel()
	all, only := os.Getenv("HOSTILE") == "all", os.Getenv("HOSTILE_ONLY")
	certificate, ca, err := hostile.NewCertificate()
	require.NoError(t, err)
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		rows  []*row
		slots = make(chan struct{}, atOnce)
	)
	for _, a := range hostile.All() {
		if !all && !a.Worst || !strings.Contains(a.Kind+": "+a.Name, only) {
			continue
		}
		for _, secured := range []bool{false, true} {
			if !secured && a.Only == hostile.TLSOnly {
				continue
			}
			wait.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				var r *row
				for range tries {
					r = &row{attack: &a, tls: secured}
					if secured {
						r.run(t, certificate, ca)
					} else {
						r.run(t, nil, "")
					}
					if r.judged = r.ok(); r.judged || !r.whole() {
						break
					}
				}
				mu.Lock()
				defer mu.Unlock()
				rows = append(rows, r)
			})
		}
	}
	wait.Wait()
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.String(), b.String()) })
	t.Logf("%-6s %-5s %-46s %-5s %9s %9s %9s %4s %9s", "kind", "over", "attack", "node", "memory", "CPU", "after", "left", "sent")
	for _, r := range rows {
		if t.Log(r); !r.judged {
			t.Errorf("%s hurt the node: %v\n%s", r.attack.Name, r.err, r.text)
		}
	}
	t.Logf("%d attacks", len(rows))
	require.NotEmpty(t, rows, "no attack has a name that contains HOSTILE_ONLY; see hostile.All")
}

func (r *row) run(t *testing.T, certificate *tls.Certificate, ca string) {
	server, err := hostile.Start(r.attack, certificate)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	text, err := json.Marshal(order{Kind: r.attack.Kind, Address: server.Address(), CA: ca})
	if err != nil {
		t.Error(err)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Error(err)
		return
	}
	child := exec.CommandContext(ctx, program)
	child.Env = append(os.Environ(), "BELFRY_HOSTILE_ORDER="+string(text))
	var printed bytes.Buffer
	child.Stderr = &printed
	in, err := child.StdinPipe()
	if err != nil {
		t.Error(err)
		return
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	if err := child.Start(); err != nil {
		t.Error(err)
		return
	}
	decoder := json.NewDecoder(out)
	if r.err = decoder.Decode(&r.report); r.err == nil { // the deliveries are over
		r.sent = server.Sent.Load()
		server.Close()
		_ = in.Close() // the process now measures what is left
		r.err = decoder.Decode(&r.report)
	}
	if err := child.Wait(); r.err == nil {
		r.err = err
	}
	if r.text = printed.String(); len(r.text) > 4000 {
		r.text = r.text[:4000]
	}
}
