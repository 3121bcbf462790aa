package app

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	measured "runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
)

// hostile is a server that answers each connection in its own words, or accepts none at all if it has no words. It
// disconnects at the end of ctx.
func hostile(ctx context.Context, t *testing.T, answer func(conn net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	if answer == nil {
		return "http://" + listener.Addr().String()
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				defer func() { _ = conn.Close() }()
				// It has the node's processors, so it writes no more ahead than it must.
				_ = conn.(*net.TCPConn).SetWriteBuffer(64 << 10)
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
					answer(conn)
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// drip writes a text again and again until the other side has enough.
func drip(head, again string, apart time.Duration) func(net.Conn) {
	return func(conn net.Conn) {
		_, err := io.WriteString(conn, head)
		bytes := []byte(again) // once: a copy for each write is more work than the node has with it
		tick := time.NewTicker(max(apart, time.Nanosecond))
		defer tick.Stop()
		for err == nil {
			if apart > 0 {
				<-tick.C
			}
			_, err = conn.Write(bytes)
		}
	}
}

// TestHostileHosts (S8): hosts that never accept, answer a byte a second, without end, with a bomb or a flood of
// headers, make a neighbour's runs no later, and take no memory. The short form does not measure how late: the first
// one holds its slots until all runs of the neighbour have arrived.
//
//nolint:paralleltest // it measures the memory of the process
func TestHostileHosts(t *testing.T) {
	long, timeout := os.Getenv("BELFRY_HOSTILE_RUNS") != "", 5*time.Second
	if !long {
		timeout = 2 * time.Hour
	}
	each, seconds := number("BELFRY_HOSTILE_RUNS", 60), number("BELFRY_HOSTILE_SECONDS", 8)
	b := startWith(t, func(c *Config) { c.Slots, c.Drain = number("BELFRY_HOSTILE_SLOTS", 30), 30*time.Second })
	fast := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	const ok = "HTTP/1.1 200 OK\r\n"
	const gzipHead = "Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	holding, release := context.WithCancel(t.Context())
	defer release()
	hosts := map[string]string{
		"never":   hostile(holding, t, nil),
		"slow":    hostile(t.Context(), t, drip(ok+"Content-Length: 1000000\r\n\r\n", "x", time.Second)),
		"endless": hostile(t.Context(), t, drip(ok+"\r\n", strings.Repeat("x", 64<<10), 0)),
		"bomb":    hostile(t.Context(), t, drip(ok+gzipHead, strings.Repeat("\xec\xc1\x01\x01\x00", 10_000), 0)),
		"headers": hostile(t.Context(), t, drip(ok, "X-A: "+strings.Repeat("x", 1000)+"\r\n", 0)),
	}
	const apart = 20 * time.Millisecond
	peak := uint64(0)
	runs := seconds * int(time.Second/apart)
	measure := func(name string, with bool) [3]time.Duration {
		begin := clock.Now()
		if long { // nothing is due before all of it is created
			begin = begin.Add(clocktest.Allow(2 * time.Second))
		}
		for host, url := range hosts {
			if with {
				b.many(t, crowd{host, url, each, timeout, func(i int) time.Time {
					return begin.Truncate(time.Second).Add(time.Duration(i*seconds/each) * time.Second)
				}})
			}
		}
		if with && !long {
			b.awaitDeferred(t, "never")
		}
		b.many(t, crowd{name, fast.url, runs, 2 * time.Hour, func(i int) time.Time {
			return begin.Add(time.Duration(i) * apart)
		}})
		require.Eventually(t, func() bool {
			peak = max(peak, inUse())
			return fast.count() >= runs
		}, time.Duration(seconds)*time.Second+3*time.Minute, 50*time.Millisecond)
		return fast.lateness()
	}
	alone, before := measure("alone", false), heap() // which also fills what a node keeps
	peak = 0
	beside, after := measure("beside", true), heap()
	t.Logf("lateness p50, p99, max of %d runs: alone %s, with %d hostile hosts, %d runs each: %s",
		runs, alone, len(hosts), each, beside)
	t.Logf("heap: %d MB before, at most %d MB, %d MB at the end", before>>20, peak>>20, after>>20)
	if long {
		judge(t, alone, beside)
	}
	require.Less(t, peak, before+100<<20, "nor while they are at it")
	release()
	b.hasten(t)
	b.eventually(t, each, `
SELECT count(*) FROM run_history h JOIN job j ON j.id = h.job_id WHERE j.name LIKE 'endless-%' AND h.ended = 1`)
}

// inUse is the memory that objects take, garbage among them.
func inUse() uint64 {
	sample := []measured.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	measured.Read(sample)
	return sample[0].Value.Uint64()
}

func heap() uint64 {
	runtime.GC()
	return inUse()
}
