package app

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	measured "runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
)

// hostile is a server that answers each connection in its own words, or accepts
// none at all if it has no words.
func hostile(t *testing.T, answer func(conn net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
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

// TestHostileHosts (S8): hosts that never accept, answer a byte a second, without
// end, with a bomb or a flood of headers, make a neighbour's runs no later, and take
// no memory.
func TestHostileHosts(t *testing.T) {
	t.Parallel()
	each, seconds := number("BELFRY_HOSTILE_RUNS", 60), number("BELFRY_HOSTILE_SECONDS", 8)
	b := startWith(t, func(c *Config) { c.Slots, c.Drain = number("BELFRY_HOSTILE_SLOTS", 30), 30*time.Second })
	fast := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	const ok = "HTTP/1.1 200 OK\r\n"
	const gzipHead = "Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	hosts := map[string]string{
		"never":   hostile(t, nil),
		"slow":    hostile(t, drip(ok+"Content-Length: 1000000\r\n\r\n", "x", time.Second)),
		"endless": hostile(t, drip(ok+"\r\n", strings.Repeat("x", 64<<10), 0)),
		"bomb":    hostile(t, drip(ok+gzipHead, strings.Repeat("\xec\xc1\x01\x01\x00", 10_000), 0)),
		"headers": hostile(t, drip(ok, "X-A: "+strings.Repeat("x", 1000)+"\r\n", 0)),
	}
	const apart = 20 * time.Millisecond
	peak := uint64(0)
	runs := seconds * int(time.Second/apart)
	measure := func(name string, with bool) [3]time.Duration {
		begin := clock.Now().Add(clocktest.Allow(2 * time.Second)) // when all of it is created, on a slow machine too
		b.many(t, crowd{name, fast.url, runs, time.Minute, func(i int) time.Time {
			return begin.Add(time.Duration(i) * apart)
		}})
		for host, url := range hosts {
			if with {
				b.many(t, crowd{host, url, each, 5 * time.Second, func(i int) time.Time {
					return begin.Truncate(time.Second).Add(time.Duration(i*seconds/each) * time.Second)
				}})
			}
		}
		require.Eventually(t, func() bool {
			peak = max(peak, inUse())
			return fast.count() >= runs
		}, time.Duration(seconds)*time.Second+time.Minute, 50*time.Millisecond)
		return fast.lateness()
	}
	alone, before := measure("alone", false), heap()
	peak = 0
	beside, after := measure("beside", true), heap()
	t.Logf("lateness p50, p99, max of %d runs: alone %s, with %d hostile hosts, %d runs each: %s (p99 %.2f times)",
		runs, alone, len(hosts), each, beside, float64(beside[1])/float64(alone[1]))
	t.Logf("heap: %d MB before, at most %d MB, %d MB at the end", before>>20, peak>>20, after>>20)
	judge(t, "BELFRY_HOSTILE_RUNS", alone, beside)
	require.Less(t, peak, before+100<<20, "nor while they are at it")
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
