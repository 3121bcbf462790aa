package amqp

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A broker may confirm each published message once, in any order, alone or together.
func TestConfirms(t *testing.T) {
	t.Parallel()
	type step struct {
		tag      uint64
		multiple bool
		ok       bool
	}
	const one, many = false, true
	for name, steps := range map[string][]step{
		"in order":                {{1, one, true}, {2, one, true}, {3, one, true}, {3, one, false}},
		"in another order":        {{3, one, true}, {1, one, true}, {2, one, true}, {1, one, false}},
		"together":                {{2, one, true}, {4, many, true}, {3, one, false}, {5, one, true}},
		"together, after one":     {{4, one, true}, {3, many, true}, {4, one, false}, {5, many, true}},
		"the same again":          {{5, one, true}, {5, one, false}, {5, many, false}},
		"none":                    {{0, one, false}, {0, many, false}},
		"not published":           {{6, one, false}, {6, many, false}},
		"all numbers there are":   {{math.MaxUint64, many, false}, {math.MaxUint64, one, false}},
		"what was confirmed once": {{5, many, true}, {4, many, false}},
	} {
		c := confirms{published: 5}
		for _, s := range steps {
			require.Equal(t, s.ok, c.confirm(s.tag, s.multiple), "%s: %+v", name, s)
		}
	}
	c := confirms{published: 2 * maxGap}
	for tag := range uint64(maxGap) {
		require.True(t, c.confirm(tag+2, false))
	}
	require.False(t, c.confirm(maxGap+2, false), "the first is missing for too long")
	require.True(t, c.confirm(1, false), "the one that was missing")
	require.True(t, c.confirm(maxGap+2, false))
	require.Empty(t, c.above)
}

// Methods are found however the client cuts what it writes.
func TestScan(t *testing.T) {
	t.Parallel()
	frame := func(kind byte, channel uint16, payload ...byte) []byte {
		b := binary.BigEndian.AppendUint16([]byte{kind}, channel)
		b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
		return append(append(b, payload...), frameEnd)
	}
	sent := slices.Concat([]byte("AMQP\x00\x00\x09\x01"), frame(methodFrame, 0, 0, 10, 0, 11, 1, 2, 3),
		frame(heartbeatFrame, 0), frame(methodFrame, 7, 0, 60, 0, 40), frame(headerFrame, 7, 1, 2, 3),
		frame(bodyFrame, 7, 0, 60, 0, 40), frame(methodFrame, 300, 0, 20, 0, 41))
	for size := 1; size <= len(sent); size++ {
		s, found := scanner{skip: greeting}, map[uint16]method{}
		for part := range slices.Chunk(sent, size) {
			s.scan(part, func(channel uint16, m method) { found[channel] = m })
		}
		require.Equal(t, map[uint16]method{0: connectionStartOK, 7: basicPublish, 300: channelCloseOK}, found, size)
	}
}
