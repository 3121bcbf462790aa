package server_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// TestHTTP2Floods: a client that sends frames without end, and reads nothing, takes little memory, leaves nothing behind,
// and another client is served.
func TestHTTP2Floods(t *testing.T) { //nolint:paralleltest // it measures the heap
	const (
		frames = 50_000
		most   = 64 << 20
	)
	d := newDoor(t, rest.Limits{KeyRate: 1_000_000, KeyBurst: 1_000_000})
	s := httptest.NewUnstartedServer(nil)
	s.Config, s.EnableHTTP2 = rest.HTTP(d.handler), true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.StartTLS()
	t.Cleanup(s.Close)
	neighbour, key := s.Client(), d.newKey(d.otherNamespace(), access.Viewer)
	served := func(t *testing.T) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1/self", http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		w, err := neighbour.Do(r)
		require.NoError(t, err)
		require.NoError(t, w.Body.Close())
		require.Equal(t, http.StatusOK, w.StatusCode)
		require.Equal(t, 2, w.ProtoMajor)
	}
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "GET"},
		{":scheme", "https"},
		{":authority", "x"},
		{":path", "/api/v1/jobs"},
		{"authorization", "Bearer " + d.key},
	} {
		require.NoError(t, e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	request := func(f *http2.Framer, i int, ends bool) error {
		return f.WriteHeaders(http2.HeadersFrameParam{
			StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndHeaders: ends, EndStream: true,
		})
	}
	floods := map[string]func(f *http2.Framer, i int) error{
		"resets": func(f *http2.Framer, i int) error {
			if err := request(f, i, true); err != nil {
				return err
			}
			return f.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel)
		},
		"requests": func(f *http2.Framer, i int) error { return request(f, i, true) },
		"pings":    func(f *http2.Framer, _ int) error { return f.WritePing(false, [8]byte{1}) },
		"settings": func(f *http2.Framer, _ int) error { return f.WriteSettings() },
		"windows":  func(f *http2.Framer, _ int) error { return f.WriteWindowUpdate(0, 1) },
		"priorities": func(f *http2.Framer, i int) error {
			return f.WritePriority(uint32(2*i+1), http2.PriorityParam{StreamDep: 0, Weight: 1})
		},
		"continuations": func(f *http2.Framer, i int) error {
			if i == 0 {
				return request(f, 0, false)
			}
			return f.WriteContinuation(1, false, bytes.Repeat([]byte{0x40, 1, 'a', 1, 'b'}, 100))
		},
		"empty data": func(f *http2.Framer, i int) error {
			if i == 0 {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
			}
			return f.WriteData(1, false, nil)
		},
	}
	served(t)
	before := runtime.NumGoroutine()
	for name, frame := range floods {
		t.Run(name, func(t *testing.T) {
			peak := peakHeap(func() {
				ended := make(chan int)
				go func() { ended <- flood(t, s.Listener.Addr().String(), frames, frame) }()
				for {
					select {
					case sent := <-ended:
						t.Logf("%d frames", sent)
						return
					default:
						served(t)
					}
				}
			})
			t.Logf("peak %d kB", peak>>10)
			require.Less(t, peak, most)
			require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+5 }, time.Minute, 10*time.Millisecond)
			served(t)
		})
	}
}

// flood sends frames on one connection until the server closes it or there are enough, reads nothing, and returns how many
// it has sent.
func flood(t *testing.T, address string, frames int, frame func(f *http2.Framer, i int) error) (sent int) {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer func() { _ = conn.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0); _ = conn.Close() }()
	_, _ = conn.Write([]byte(http2.ClientPreface))
	f := http2.NewFramer(conn, nil)
	f.AllowIllegalWrites = true
	if err := f.WriteSettings(); err != nil {
		t.Error(err)
	}
	for sent = range frames {
		_ = conn.SetWriteDeadline(clock.Now().Add(5 * time.Second))
		if frame(f, sent) != nil {
			return sent
		}
	}
	return frames
}
