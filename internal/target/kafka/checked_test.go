package kafka

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/belfry-dev/belfry/internal/target/broker"
)

// said is a socket from which text is read.
type said struct {
	net.Conn
	io.Reader
}

func (s said) Read(b []byte) (int, error) { return s.Reader.Read(b) }
func (said) Write(b []byte) (int, error)  { return len(b), nil }
func (said) Close() error                 { return nil }

func sized(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// written is a request.
func written(key kmsg.Key, version int16) string {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	return sized(string(binary.BigEndian.AppendUint16(b, uint16(version))) + "\x00\x00\x00\x07 and more")
}

// A response must belong to a request and have a limited size. The login of old brokers is refused.
func TestResponses(t *testing.T) {
	t.Parallel()
	produce, metadata := written(kmsg.Produce, 9), written(kmsg.Metadata, 12)
	cluster12 := sized(string(response(12, 3, 5, "a")))
	for _, c := range []struct {
		writes, says string
		err          error
	}{
		{produce, sized("response"), nil},
		{produce + produce, sized("response") + sized("another"), nil},
		{produce, sized("response") + sized("another"), errProtocol},
		{"", sized("response"), errProtocol},
		{produce, sized(strings.Repeat("x", maxResponse)), nil},
		{produce, sized(strings.Repeat("x", maxResponse+1)), errProtocol},
		{produce, "\xff\xff\xff\xff", errProtocol},
		{metadata + produce, cluster12 + sized("response"), nil},
		{produce + metadata, sized("response") + cluster12, nil},
		{metadata, sized("garbage that is no metadata"), errProtocol},
		{metadata, sized(strings.Repeat("\x00", maxMetadata+1)), errProtocol},
		{written(kmsg.SASLHandshake, 1), sized("response"), nil},
		{written(kmsg.SASLHandshake, 0), "", errOld},
		{sized("n,,n=user,r=nonce"), "", errOld},
		{sized("\x00user\x00password"), "", errOld},
	} {
		for _, size := range []int{1, 3, len(c.writes) + 1} {
			conn := &checked{Conn: said{Reader: strings.NewReader(c.says)}, cluster: &cluster{sockets: 1}}
			var err error
			for rest := c.writes; rest != "" && err == nil; rest = rest[min(size, len(rest)):] {
				_, err = conn.Write([]byte(rest[:min(size, len(rest))]))
			}
			var passed []byte
			if err == nil {
				passed, err = io.ReadAll(conn)
			}
			if c.err != nil {
				require.ErrorIs(t, err, c.err, "%.60q", c.says)
				require.Equal(t, c.writes == metadata, conn.cluster.full(), "refused metadata: %.60q", c.says)
				continue
			}
			require.NoError(t, err, "%.60q", c.says)
			require.Equal(t, c.says, string(passed))
			require.NoError(t, conn.Close())
			require.NoError(t, conn.Close(), "twice")
			require.Zero(t, conn.cluster.sockets)
		}
	}
}

// A broker cannot demand more rounds of SCRAM than maxIterations.
func TestRounds(t *testing.T) {
	t.Parallel()
	for rounds, ok := range map[string]bool{
		"4096": true, "100000": true, "100001": false, "2147483647": false, "99999999999999999999": false, "x": false,
	} {
		for _, name := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			m := mechanism(name, broker.Access{User: "user", Password: "password"})
			session, first, err := m.Authenticate(t.Context(), "")
			require.NoError(t, err)
			_, nonce, _ := strings.Cut(string(first), ",r=")
			_, _, err = session.Challenge([]byte("r=" + nonce + "more,s=c2FsdA==,i=" + rounds))
			if ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errIterations)
			}
		}
	}
}

// FuzzMetadata: nothing that a broker sends panics. What is accepted can be read by the client.
func FuzzMetadata(f *testing.F) {
	for version := range kmsg.NewPtrMetadataResponse().MaxVersion() + 1 {
		f.Add(version, response(version, 3, 4, "a", "b"))
	}
	f.Fuzz(func(t *testing.T, version int16, text []byte) {
		if version < 0 || version > 13 || !(&cluster{}).accept(version, text) {
			return
		}
		r := kmsg.NewPtrMetadataResponse()
		r.SetVersion(version)
		m := &metadata{version: version}
		m.Src = text
		m.Span(4)
		m.tags()
		_ = r.ReadFrom(m.Src)
		require.LessOrEqual(t, len(r.Brokers), maxBrokers)
	})
}
