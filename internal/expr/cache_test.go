package expr

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// large returns an expression of about 1 kB that takes as much memory as one can, and that no other call returns.
var large = func() func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprintf(`string([%s[]].size())+"%06d"`, strings.Repeat("[].map(a,a),", 80), n)
	}
}()

// grown returns by how much the heap is larger after f, in bytes.
func grown(f func()) int {
	size := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := size()
	f()
	return size() - before
}

// TestMemoryOfExpressions: compiled expressions take at most 64 MB, whatever users write: the cache bounds their text, and
// nothing else keeps them. It is not parallel, because it measures the heap of the process.
func TestMemoryOfExpressions(t *testing.T) {
	const many = 20
	_, err := Compile(large(), OfAttempt) // what is allocated once
	require.NoError(t, err)
	before := known.bytes
	took := grown(func() {
		for range many {
			_, err := Compile(large(), OfAttempt)
			require.NoError(t, err)
		}
	})
	text := known.bytes - before
	require.Greater(t, text, many*900)
	require.Less(t, took/text*maxBytes, 64<<20)
	require.Greater(t, took, many*10_000, "it measures something")

	before = known.bytes
	templates := make([]*Template, many)
	took = grown(func() {
		for i := range templates {
			require.NoError(t, Check(large(), OfRun))
			templates[i], err = ParseTemplate("${" + large() + "}")
			require.NoError(t, err)
		}
	})
	require.Equal(t, before, known.bytes, "what is only checked is not kept")
	require.Less(t, took, many*10_000)
	runtime.KeepAlive(templates)
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, MaxText} {
		var c cache
		for i := range 3 * maxKnown {
			k := cached{text: fmt.Sprintf("%*d", size, i)}
			c.put(k, &Expression{})
			require.NotNil(t, c.get(k))
			require.LessOrEqual(t, c.bytes, maxBytes)
			require.LessOrEqual(t, len(c.by), maxKnown)
		}
		c.put(cached{text: "again"}, &Expression{})
		before := c.bytes
		c.put(cached{text: "again"}, &Expression{})
		require.Equal(t, before, c.bytes, "counted once")
	}
}
