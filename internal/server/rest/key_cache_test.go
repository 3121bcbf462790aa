package rest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

// hashKeys answers with one key as often as it is released.
type hashKeys struct {
	Keys
	release chan struct{}
	asked   atomic.Int32
}

func (k *hashKeys) KeyHashes(context.Context) ([][8]byte, error) {
	k.asked.Add(1)
	<-k.release
	return [][8]byte{{1}}, nil
}

// TestASlowDatabaseHoldsUpNoKey: while one request asks for the existing keys, others use the last answer, and do not
// ask themselves.
func TestASlowDatabaseHoldsUpNoKey(t *testing.T) {
	t.Parallel()
	var elapsed atomic.Int64
	hashes := newKnownHashes()
	hashes.Elapsed = func() time.Duration { return time.Duration(elapsed.Load()) }
	keys := &hashKeys{release: make(chan struct{}, 1)}
	keys.release <- struct{}{}
	require.True(t, hashes.has(t.Context(), keys, [32]byte{1}))
	require.False(t, hashes.has(t.Context(), keys, [32]byte{2}))
	require.EqualValues(t, 1, keys.asked.Load())

	elapsed.Add(int64(2 * hashesTTL)) // from now on the database does not answer
	for range 10 {
		require.True(t, hashes.has(t.Context(), keys, [32]byte{1}))
		require.False(t, hashes.has(t.Context(), keys, [32]byte{2}))
	}
	require.LessOrEqual(t, keys.asked.Load(), int32(2))

	elapsed.Add(int64(keyTTL)) // the last answer is too old
	limited, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, hashes.has(limited, keys, [32]byte{1}))
	close(keys.release)
	require.Eventually(t, func() bool {
		elapsed.Add(int64(hashesTTL))
		return hashes.has(t.Context(), keys, [32]byte{1})
	}, time.Minute, time.Millisecond)
}

// TestARevokedKeyIsNotRemembered: a lookup that read a key before it was revoked, and ends after that, does not put the
// key into the cache.
func TestARevokedKeyIsNotRemembered(t *testing.T) {
	t.Parallel()
	var c keyCache
	hash, p := [32]byte{1}, access.Principal{Key: uuid.New()}
	c.put(hash, p, c.begin())
	_, fresh, _ := c.get(hash)
	require.True(t, fresh)
	began := c.begin()
	c.forget(p.Key)
	c.put(hash, p, began)
	_, fresh, known := c.get(hash)
	require.False(t, fresh)
	require.False(t, known)
	c.put(hash, p, c.begin())
	_, fresh, _ = c.get(hash)
	require.True(t, fresh, "of a lookup that began later")
}
