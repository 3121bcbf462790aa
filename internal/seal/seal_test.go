package seal_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/seal"
)

func again(t *testing.T, k *seal.Keyset) *seal.Keyset {
	t.Helper()
	text, err := k.Text()
	require.NoError(t, err)
	out, err := seal.Read(text)
	require.NoError(t, err)
	return out
}

func TestSealedOpensOnlyWhereItBelongs(t *testing.T) {
	t.Parallel()
	k, err := seal.New()
	require.NoError(t, err)
	sealed, err := k.Seal([]byte("hello"), []byte("here"))
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "hello")
	require.True(t, bytes.HasPrefix(sealed, k.Prefix()))
	plain, err := again(t, k).Open(sealed, []byte("here"))
	require.NoError(t, err)
	require.Equal(t, "hello", string(plain))
	_, err = k.Open(sealed, []byte("there"))
	require.ErrorContains(t, err, "another place")
	other, err := seal.New()
	require.NoError(t, err)
	_, err = other.Open(sealed, []byte("here"))
	require.Error(t, err)
}

// TestRotation: at each step all nodes, those with the keyset before and those with the one after it, open what any of
// them seals.
func TestRotation(t *testing.T) {
	t.Parallel()
	opens := func(k *seal.Keyset, sealed []byte) error {
		_, err := k.Open(sealed, nil)
		return err
	}
	one, err := seal.New()
	require.NoError(t, err)
	added, err := one.Add()
	require.NoError(t, err)
	used, err := again(t, added).Use()
	require.NoError(t, err)
	dropped, n, err := again(t, used).Drop()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	steps := []*seal.Keyset{one, added, used, again(t, dropped)}
	for i, k := range steps {
		sealed, err := k.Seal([]byte("x"), nil)
		require.NoError(t, err)
		for j := max(0, i-1); j <= min(i+1, len(steps)-1); j++ {
			if i == 1 && j == 0 || i != 0 || j != 3 {
				require.NoError(t, opens(steps[j], sealed), "sealed at step %d, opened at %d", i, j)
			}
		}
	}
	require.Equal(t, one.Prefix(), added.Prefix())
	require.NotEqual(t, added.Prefix(), used.Prefix())
	sealed, err := one.Seal([]byte("x"), nil)
	require.NoError(t, err)
	require.Error(t, opens(dropped, sealed))
}

func TestWrongKeysets(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{}", "canary-secret", `{"primaryKeyId":1,"key":[]}`} {
		_, err := seal.Read(text)
		require.ErrorContains(t, err, "belfry secret keyset new")
		require.NotContains(t, err.Error(), "canary")
	}
}
