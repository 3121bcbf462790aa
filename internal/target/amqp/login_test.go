package amqp_test

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/amqp"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
)

// Frames that a target sends to log in.
const (
	startOK = iota + 1
	tuneOK
	open
)

// interrupted starts a proxy in front of a broker that does not pass on the frame of that number. The target
// gets answer instead and is disconnected, or left waiting if answer is nil.
func interrupted(t *testing.T, number int, answer []byte) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	over := make(chan struct{})
	var all sync.WaitGroup
	t.Cleanup(func() { close(over); _ = listener.Close(); all.Wait() })
	all.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address(t).Host)
			if err != nil {
				t.Errorf("dial: %v", err)
				return
			}
			all.Go(func() {
				_, _ = io.Copy(in, out)
			})
			all.Go(func() {
				defer func() { _ = in.Close(); _ = out.Close() }()
				_, _ = io.CopyN(out, in, int64(len("AMQP\x00\x00\x09\x01")))
				for n := 1; ; n++ {
					frame, err := readFrame(in)
					switch {
					case err != nil:
						return
					case n < number:
						_, _ = out.Write(frame)
						continue
					case answer == nil:
						<-over
					default:
						_, _ = in.Write(answer)
					}
					return
				}
			})
		}
	})
	return listener.Addr().String()
}

// readFrame reads a frame: type, channel, size, content and end.
func readFrame(from io.Reader) ([]byte, error) {
	head := make([]byte, 7)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
	_, err := io.ReadFull(from, body)
	return slices.Concat(head, body), err
}

// farewell is connection.close, as a broker sends it.
func farewell(code uint16, text string) []byte {
	method := binary.BigEndian.AppendUint16([]byte{0, 10, 0, 50}, code)
	method = slices.Concat(method, []byte{byte(len(text))}, []byte(text), []byte{0, 0, 0, 0})
	return slices.Concat([]byte{1, 0, 0}, binary.BigEndian.AppendUint32(nil, uint32(len(method))), method, []byte{0xCE})
}

// A broker that stops or stalls during the login, or has too many connections, has not rejected the
// credentials.
func TestABrokerThatLeavesDuringTheLogin(t *testing.T) {
	t.Parallel()
	address(t) // or skip
	const access = `access to vhost '/' refused for user 'belfry': `
	for _, c := range []struct {
		name   string
		number int
		answer []byte
		final  bool
		says   string
	}{
		{"hangs up at the password", startOK, []byte{}, false, "hung up during the login"},
		{"hangs up at the settings", tuneOK, []byte{}, false, "hung up during the login"},
		{"hangs up at the virtual host", open, []byte{}, false, "hung up during the login"},
		{"stalls at the password", startOK, nil, false, "in time"},
		{"stalls at the virtual host", open, nil, false, "in time"},
		{
			"is full", open, farewell(530, "NOT_ALLOWED - "+access+"connection limit (1) is reached"), false,
			"limit (1) is reached",
		},
		{
			"is full for the user", open,
			farewell(530, "NOT_ALLOWED - connection refused for user 'belfry': user connection limit (1) is reached"),
			false, "limit (1) is reached",
		},
		{
			"refuses", open, farewell(530, "NOT_ALLOWED - "+access+"user 'limit (1) is reached' is another one"), true,
			"fix user, password and vhost",
		},
		{
			"stops", open, farewell(320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"),
			false, "shutdown",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			began := clock.Elapsed()
			out := newTarget(t, "127.0.0.0/8").Deliver(t.Context(),
				attempt(interrupted(t, c.number, c.answer), `, "routing_key": "x"`))
			require.Equal(t, job.Failed, out.Kind)
			require.Equal(t, !c.final, out.Retryable, "%+v", out)
			require.False(t, out.Unknown, "%+v", out)
			require.Contains(t, out.Message, c.says)
			require.Less(t, clock.Elapsed()-began, clocktest.Allow(10*time.Second+slack),
				"it may take what the pool allows")
		})
	}
}

// A wrong password is reported explicitly, and not guessed from a closed connection, which would take a
// second.
func TestAWrongPasswordIsSaidAloud(t *testing.T) {
	t.Parallel()
	u := address(t)
	fastest := time.Hour
	for range 3 {
		target := amqp.New(broker.Options{
			Dialer: brokertest.Guard(t, u.Host), Secrets: withPassword{password: "wrong"},
		})
		t.Cleanup(target.Close)
		began := clock.Elapsed()
		out := target.Deliver(t.Context(), attempt(u.Host, `, "routing_key": "x"`))
		fastest = min(fastest, clock.Elapsed()-began)
		require.False(t, out.Retryable, "%+v", out)
		require.Contains(t, out.Message, "does not take these credentials")
		require.NotContains(t, out.Message, "wrong")
	}
	require.Less(t, fastest, clocktest.Allow(time.Second))
}
