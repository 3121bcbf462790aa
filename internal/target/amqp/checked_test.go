package amqp

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// said is a socket from which text is read.
type said struct {
	net.Conn
	io.Reader
}

func (s said) Read(b []byte) (int, error) { return s.Reader.Read(b) }
func (said) Write(b []byte) (int, error)  { return len(b), nil }
func frame(kind byte, n uint16, p string) string {
	b := binary.BigEndian.AppendUint16([]byte{kind}, n)
	return string(binary.BigEndian.AppendUint32(b, uint32(len(p)))) + p + "\xce"
}

func call(channel uint16, m method, args string) string {
	return frame(methodFrame, channel, string(binary.BigEndian.AppendUint32(nil, uint32(m)))+args)
}

// newTestChecked returns the reader of a connection that has opened channel 1 and published two messages.
func newTestChecked(text string) *checked {
	c := newChecked(said{Reader: strings.NewReader(text)})
	for _, m := range []method{channelOpen, confirmSelect, basicPublish, basicPublish} {
		c.sent(1, m)
	}
	return c
}

// What a broker sends ends the connection, unless it is allowed.
func TestWhatBrokersSend(t *testing.T) {
	t.Parallel()
	tag := func(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) + "\x00" }
	header := func(size uint64) string {
		return frame(headerFrame, 1, "\x00\x3c\x00\x00"+string(binary.BigEndian.AppendUint64(nil, size))+"\x00\x00")
	}
	returned := call(1, basicReturn, "") + header(3) + frame(bodyFrame, 1, "ab") + frame(bodyFrame, 1, "c")
	closeAgain := call(1, channelClose, "")
	for text, ok := range map[string]bool{
		call(0, connectionStart, ""):                                      true,
		call(0, connectionStart, "") + call(0, connectionStart, ""):       false,
		call(0, connectionTune, ""):                                       false,
		call(0, connectionClose, ""):                                      true,
		call(0, connectionBlocked, "") + frame(heartbeatFrame, 0, ""):     true,
		call(0, basicAck, tag(1)):                                         false,
		call(1, connectionClose, ""):                                      false,
		call(1, channelOpenOK, "") + call(1, confirmSelectOK, ""):         true,
		call(1, channelOpenOK, "") + call(1, channelOpenOK, ""):           false,
		call(2, channelOpenOK, ""):                                        false,
		closeAgain:                                                        true,
		call(1, channelCloseOK, ""):                                       false,
		call(1, basicAck, tag(1)) + call(1, basicNack, tag(2)):            true,
		call(1, basicAck, tag(3)):                                         false,
		call(1, basicAck, ""):                                             false,
		returned + returned + call(1, basicAck, tag(1)):                   true,
		returned + returned + returned:                                    false,
		call(1, basicReturn, "") + call(1, basicAck, tag(1)):              false,
		call(1, basicReturn, "") + header(maxReturned+1):                  false,
		call(1, basicReturn, "") + header(2) + frame(bodyFrame, 1, "abc"): false,
		call(1, basicReturn, "") + header(0) + frame(bodyFrame, 1, "a"):   false,
		header(0):                     false,
		frame(bodyFrame, 1, "a"):      false,
		call(1, 60<<16|60, ""):        false, // a delivery
		call(1, 20<<16|20, "\x00"):    false, // flow
		frame(heartbeatFrame, 1, ""):  false,
		frame(heartbeatFrame, 0, "x"): false,
		frame(9, 0, ""):               false,
		frame(methodFrame, 0, "x"):    false,
		call(0, connectionClose, strings.Repeat("x", maxMethod)): false,
		"\x08\x00\x00\x00\x00\x00\x00\x00":                       false, // the wrong end
		"\x03\x00\x01\xff\xff\xff\xff":                           false,
	} {
		_, err := io.Copy(io.Discard, newTestChecked(text))
		require.Equal(t, ok, err == nil, "%.80q: %v", text, err)
		require.True(t, err == nil || errors.Is(err, errProtocol), "%.80q: %v", text, err)
	}
	passed, err := io.ReadAll(newTestChecked(returned))
	require.NoError(t, err)
	require.Equal(t, call(1, basicReturn, "")+header(0), string(passed), "without the body")
}

// TestAGapRetiresTheConnection long before the broker may not confirm further messages.
func TestAGapRetiresTheConnection(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for tag := range uint64(maxGap / 2) {
		text.WriteString(call(1, basicAck, string(binary.BigEndian.AppendUint64(nil, tag+2))+"\x00"))
	}
	next := call(1, basicAck, string(binary.BigEndian.AppendUint64(nil, maxGap))+"\x00")
	for more, retired := range map[string]bool{"": false, next: true} {
		c := newTestChecked(text.String() + more)
		c.channels[1].confirms.published = maxGap
		_, err := io.Copy(io.Discard, c)
		require.NoError(t, err)
		require.Equal(t, retired, (&connection{checked: c}).Retired())
	}
}

// FuzzChecked: nothing that a broker sends panics.
func FuzzChecked(f *testing.F) {
	f.Add(call(0, connectionStart, "") + call(1, basicAck, "\x00\x00\x00\x00\x00\x00\x00\x01\x00"))
	f.Add("\x03\x00\x01\xff\xff\xff\xff")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = io.Copy(io.Discard, newTestChecked(text)) })
}
