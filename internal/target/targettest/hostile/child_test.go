package hostile_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/http"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

const (
	deliveries = 8 // after the first one, at the same time
	patience   = 3 * time.Second
	settleTime = 2 * time.Second // CPU time is measured over it
)

// order says what the process delivers to.
type order struct {
	Kind, Address, CA string
}

// report is what the process found out about itself.
type report struct {
	Growth  int           // of its memory, at most, in kB
	During  time.Duration // CPU time while it was attacked
	After   time.Duration // CPU time after the server had gone
	Left    int           // goroutines
	Message string        // of the first delivery
}

// closer is a target that has connections.
type closer interface {
	targettest.Target
	Close()
}

func (o *order) target() (closer, map[string]any) {
	g, err := guard.New(guard.Options{Allow: []string{"127.0.0.0/8"}})
	if err != nil {
		fail(err)
	}
	scheme, options := "http", http.Options{Guard: g}
	if o.CA != "" {
		scheme, options.TLS = "https", &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		options.TLS.RootCAs.AppendCertsFromPEM([]byte(o.CA))
	}
	return http.New(options), map[string]any{"url": scheme + "://" + o.Address + "/"}
}

// deliver delivers to a hostile server, and prints two reports: after the deliveries, and after the server has
// gone, which the end of the standard input says.
func deliver(text string) {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fail(err)
	}
	target, config := o.target()
	raw, err := json.Marshal(config)
	if err != nil {
		fail(err)
	}
	debug.FreeOSMemory()
	goroutines, memory, cpu := runtime.NumGoroutine(), highest(), used()
	r := report{Message: attempt(target, &o, raw).Message}
	var all sync.WaitGroup
	for range deliveries {
		all.Go(func() { attempt(target, &o, raw) })
	}
	all.Wait()
	r.Growth, r.During = highest()-memory, used()-cpu
	send(r)
	_, _ = io.Copy(io.Discard, os.Stdin)
	target.Close()
	cpu = used()
	<-time.After(settleTime)
	r.After, r.Growth = used()-cpu, highest()-memory
	for range 1200 { // goroutines that wait for a timer end
		if r.Left = max(runtime.NumGoroutine()-goroutines, 0); r.Left == 0 {
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	if r.Left > 0 {
		stacks := make([]byte, 64<<10)
		fmt.Fprintln(os.Stderr, string(stacks[:runtime.Stack(stacks, true)]))
	}
	send(r)
}

func attempt(target targettest.Target, o *order, config []byte) job.Outcome {
	id := uuid.New()
	return target.Deliver(context.Background(), job.Attempt{
		Key:    job.Key{Partition: job.PartitionOf(id), Job: id, DueAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		Number: 1, Timeout: patience, Kind: o.Kind, Config: string(config), Payload: `{"n": 1}`,
	})
}

// fail ends the process: it is not the node that was hurt, but the test.
func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(3)
}

func send(r report) {
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fail(err)
	}
}

// highest returns the most memory that the process has had, in kB.
func highest() int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fail(err)
	}
	var kb int
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	if _, err := fmt.Sscan(after, &kb); err != nil {
		fail(err)
	}
	return kb
}

// used returns the CPU time of the process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		fail(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
