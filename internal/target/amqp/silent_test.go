package amqp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/amqp"
)

const (
	short = 500 * time.Millisecond // the timeout of an attempt
	slack = 5 * time.Second        // for a busy machine; less than writeLimit and the heartbeats
)

// silent is a proxy that can withhold responses, or stop reading, while the connection stays open.
type silent struct {
	listener net.Listener
	to       string
	keeps    atomic.Int32  // responses on this channel and those after it are withheld, if not 0
	keepsAll atomic.Bool   // everything except heartbeats is withheld
	keepsAck atomic.Uint64 // the confirmation of the message with this tag is withheld, if not 0
	most     atomic.Int32  // maximum number of channels, if not 0
	opened   atomic.Int32  // number of channels so far
	deaf     chan struct{} // closed: the proxy stops reading
	over     chan struct{}
	ended    chan struct{} // receives a value when the target has closed its connection
}

func newSilent(t *testing.T) *silent {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &silent{
		listener: listener, to: address(t).Host, deaf: make(chan struct{}), over: make(chan struct{}),
		ended: make(chan struct{}, 10),
	}
	var all sync.WaitGroup
	t.Cleanup(func() { close(s.over); _ = listener.Close(); all.Wait() })
	all.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			_ = in.(*net.TCPConn).SetReadBuffer(4 << 10)
			out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.to)
			if err != nil {
				t.Errorf("dial: %v", err)
				return
			}
			all.Go(func() { <-s.over; _ = in.Close(); _ = out.Close() })
			all.Go(func() { s.forward(out, in) })
			all.Go(func() { s.back(in, out) })
		}
	})
	return s
}

func (s *silent) address() string { return s.listener.Addr().String() }

func (s *silent) forward(to io.Writer, from io.Reader) {
	buf := make([]byte, 4<<10)
	for {
		select {
		case <-s.deaf:
			return
		default:
		}
		n, err := from.Read(buf)
		if err != nil {
			s.ended <- struct{}{}
			return
		}
		_, _ = to.Write(buf[:n]) // the broker may be gone
	}
}

// back forwards responses frame by frame.
func (s *silent) back(to io.Writer, from io.Reader) {
	for {
		frame, err := readFrame(from)
		if err != nil {
			return
		}
		const heartbeat = 8
		channel, kept := int32(binary.BigEndian.Uint16(frame[1:])), s.keeps.Load()
		if kept != 0 && channel >= kept || s.keepsAll.Load() && frame[0] != heartbeat {
			continue
		}
		tune, opened, ack := []byte{0, 10, 0, 30}, []byte{0, 20, 0, 11}, []byte{0, 60, 0, 80}
		switch method := frame[7:]; {
		case bytes.HasPrefix(method, ack) && s.keepsAck.Load() != 0:
			method[12] = 0 // it confirms one message, not those before it
			if binary.BigEndian.Uint64(method[4:]) == s.keepsAck.Load() {
				continue
			}
		case bytes.HasPrefix(method, tune) && s.most.Load() != 0:
			binary.BigEndian.PutUint16(method[4:], uint16(s.most.Load()))
		case bytes.HasPrefix(method, opened):
			s.opened.Add(1)
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

// deliverAll delivers concurrently and fails if a delivery takes longer than its timeout.
func deliverAll(t *testing.T, target *amqp.Target, attempts ...job.Attempt) []job.Outcome {
	t.Helper()
	outs := make([]job.Outcome, len(attempts))
	began, done := clock.Elapsed(), make(chan struct{})
	var all sync.WaitGroup
	for i := range attempts {
		all.Go(func() { outs[i] = target.Deliver(t.Context(), attempts[i]) })
	}
	go func() { defer close(done); all.Wait() }()
	select {
	case <-done:
	case <-time.After(clocktest.Allow(short + slack)):
		t.Fatalf("a delivery with a timeout of %s is not over after %s", short, clock.Elapsed()-began)
	}
	return outs
}

func hasty(server, more, payload string) job.Attempt {
	a := attempt(server, more)
	a.Timeout, a.Payload = short, payload
	return a
}

// If the broker does not open the channel of one exchange, deliveries to it time out. Others are not
// affected.
func TestAChannelThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	ch := openChannel(t)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	proxy, target := newSilent(t), newTarget(t, "127.0.0.0/8")
	good := attempt(proxy.address(), fmt.Sprintf(`, "routing_key": %q`, q.Name))
	require.Equal(t, job.Succeeded, deliverAll(t, target, good)[0].Kind)

	proxy.keeps.Store(2) // the first channel is that of the default exchange
	var bad []job.Attempt
	for i := range 20 {
		bad = append(bad, hasty(proxy.address(), fmt.Sprintf(`, "exchange": "e%d", "routing_key": "x"`, i%3), "1"))
	}
	bad = append(bad, good, good, good)
	for i, out := range deliverAll(t, target, bad...) {
		if i >= 20 {
			require.Equal(t, job.Succeeded, out.Kind, "%+v", out)
			continue
		}
		require.Equal(t, job.Failed, out.Kind)
		require.True(t, out.Retryable)
		require.False(t, out.Unknown, "nothing was sent")
		require.Contains(t, out.Message, "did not take the message within the timeout")
	}
}

// A broker that reads nothing does not delay deliveries beyond their timeout, although the client waits for
// it.
func TestABrokerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	ch := openChannel(t)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	proxy, target := newSilent(t), newTarget(t, "127.0.0.0/8")
	key := fmt.Sprintf(`, "routing_key": %q`, q.Name)
	require.Equal(t, job.Succeeded, deliverAll(t, target, attempt(proxy.address(), key))[0].Kind)

	close(proxy.deaf)
	large := `"` + strings.Repeat("x", 1<<20) + `"`
	var attempts []job.Attempt
	for range 20 {
		attempts = append(attempts, hasty(proxy.address(), key, large),
			hasty(proxy.address(), `, "exchange": "e", "routing_key": "x"`, "1"))
	}
	taken := 0
	for _, out := range deliverAll(t, target, attempts...) {
		require.Equal(t, job.Failed, out.Kind)
		require.True(t, out.Retryable)
		require.True(t, out.Down)
		if out.Unknown {
			taken++
		}
	}
	require.Less(t, taken, 20, "what was not written is known not to be there")
}

// A connection is closed even if the broker does not respond.
func TestAFarewellThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	ch := openChannel(t)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	proxy, target := newSilent(t), newTarget(t, "127.0.0.0/8")
	require.Equal(t, job.Succeeded,
		deliverAll(t, target, attempt(proxy.address(), fmt.Sprintf(`, "routing_key": %q`, q.Name)))[0].Kind)
	proxy.keepsAll.Store(true)
	target.Close()
	select {
	case <-proxy.ended:
	case <-time.After(clocktest.Allow(2*time.Second + slack)):
		t.Fatal("it is still there")
	}
}

// TestAMessageThatIsNotConfirmed does not hide the confirmations of later messages to the same exchange.
func TestAMessageThatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	ch := openChannel(t)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	proxy, target := newSilent(t), newTarget(t, "127.0.0.0/8")
	proxy.keepsAck.Store(1)
	key := fmt.Sprintf(`, "routing_key": %q`, q.Name)
	first := make(chan job.Outcome, 1)
	a := attempt(proxy.address(), key)
	ctx, giveUp := context.WithCancel(t.Context())
	go func() { first <- target.Deliver(ctx, a) }()
	require.Eventually(t, func() bool {
		arrived, err := ch.QueueDeclarePassive(q.Name, false, true, true, false, nil)
		return err == nil && arrived.Messages == 1
	}, time.Minute, 10*time.Millisecond)
	for range 3 {
		require.Equal(t, job.Succeeded, target.Deliver(t.Context(), attempt(proxy.address(), key)).Kind)
	}
	unroutable := target.Deliver(t.Context(), attempt(proxy.address(), `, "routing_key": "none"`))
	require.Contains(t, unroutable.Message, "no queue is bound")
	giveUp()
	require.True(t, (<-first).Retryable)
}
