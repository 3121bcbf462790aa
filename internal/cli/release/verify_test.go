package release

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/jedisct1/go-minisign"
	"github.com/stretchr/testify/require"
)

const archive = "belfry_0.2.0_linux_amd64.tar.gz"

// bundle is a release in a directory, and the key that signed it.
type bundle struct {
	dir, key string
	private  minisign.PrivateKey
}

func setup(t *testing.T) *bundle {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	b := &bundle{dir: t.TempDir()}
	b.private.SignatureAlgorithm, b.private.KeyId = [2]byte{'E', 'd'}, [8]byte{1, 2, 3}
	copy(b.private.SecretKey[:], private)
	b.key = base64.StdEncoding.EncodeToString(append([]byte{'E', 'd', 1, 2, 3, 0, 0, 0, 0, 0}, public...))
	content := []byte("an archive")
	b.write(t, archive, content)
	b.write(t, sumsName, fmt.Appendf(nil, "%x  %s\n%x  NOTES.md\n", sha256.Sum256(content), archive, sha256.Sum256(nil)))
	b.sign(t, "belfry 0.2.0")
	return b
}

func (b *bundle) write(t *testing.T, name string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, name), content, 0o600))
}

func (b *bundle) sign(t *testing.T, comment string) {
	t.Helper()
	sums, err := os.ReadFile(filepath.Join(b.dir, sumsName))
	require.NoError(t, err)
	signature, err := b.private.Sign(sums, minisign.SignOptions{TrustedComment: comment, Hashed: true})
	require.NoError(t, err)
	b.write(t, sumsName+".minisig", signature.Encode())
}

// change replaces a text in a file.
func (b *bundle) change(t *testing.T, name, old, replaced string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(b.dir, name))
	require.NoError(t, err)
	require.Contains(t, string(content), old)
	b.write(t, name, bytes.Replace(content, []byte(old), []byte(replaced), 1))
}

func TestFilesOfAReleaseAreVerified(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, name := range []string{archive, sumsName} {
		signed, err := Verify(b.key, filepath.Join(b.dir, name))
		require.NoError(t, err)
		require.Equal(t, "belfry 0.2.0", signed)
	}
}

func TestWhatIsNotSignedIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*testing.T, *bundle)
		file   string
		want   string
	}{
		"a byte of the file": {
			change: func(t *testing.T, b *bundle) { b.change(t, archive, "an", "An") },
			want:   "its checksum is",
		},
		"a byte of the checksums": {
			change: func(t *testing.T, b *bundle) { b.change(t, sumsName, "NOTES", "NOTEZ") },
			want:   "not signed by the key of this program",
		},
		"the comment, which names the release": {
			change: func(t *testing.T, b *bundle) { b.change(t, sumsName+".minisig", "belfry 0.2.0", "belfry 0.3.0") },
			want:   "not signed by the key of this program",
		},
		"another key with the same id": {
			change: func(t *testing.T, b *bundle) {
				other := setup(t)
				b.private = other.private
				b.sign(t, "belfry 0.2.0")
			},
			want: "not signed by the key of this program",
		},
		"another product of the same key": {
			change: func(t *testing.T, b *bundle) { b.sign(t, "carillon 1.0.0") },
			want:   "not for a release of Belfry",
		},
		"a file that was renamed": {
			change: func(t *testing.T, b *bundle) { b.write(t, "belfry.tar.gz", []byte("an archive")) },
			file:   "belfry.tar.gz",
			want:   "is not in SHA256SUMS",
		},
		"no signature": {
			change: func(t *testing.T, b *bundle) {
				require.NoError(t, os.Remove(filepath.Join(b.dir, sumsName+".minisig")))
			},
			want: "download it from the same release",
		},
		"a signature that is none": {
			change: func(t *testing.T, b *bundle) { b.write(t, sumsName+".minisig", []byte("untrusted comment: x\n")) },
			want:   "is not a signature by minisign",
		},
		"checksums without end": {
			change: func(t *testing.T, b *bundle) { b.write(t, sumsName, make([]byte, maxSums+1)) },
			want:   "has more than",
		},
		"a file that is missing": {
			change: func(*testing.T, *bundle) {},
			file:   "NOTES.md",
			want:   "NOTES.md",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			test.change(t, b)
			file := archive
			if test.file != "" {
				file = test.file
			}
			_, err := Verify(b.key, filepath.Join(b.dir, file))
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestAProgramWithoutAKeySaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := Verify("", filepath.Join(b.dir, archive))
	require.ErrorContains(t, err, "has no key of releases")
	_, err = Verify("nonsense", filepath.Join(b.dir, archive))
	require.ErrorContains(t, err, "the key of releases in this program")
}
