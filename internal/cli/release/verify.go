// Package release verifies the files of a release of Belfry.
package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/jedisct1/go-minisign"
)

// publicKey is the minisign key of releases, in its base64 form. dev/static sets it.
var publicKey string

// PublicKey returns the key that signs releases. Programs that were not built as a release have none.
func PublicKey() string { return publicKey }

const (
	sumsName = "SHA256SUMS"
	maxSums  = 1 << 20 // bytes of SHA256SUMS or of its signature
	prefix   = "trusted comment: "
)

// Verify checks a file of a release and returns the release that the signature names, such as "belfry 0.2.0". The
// signature covers the checksums, and one of them must be that of the file.
func Verify(key, file string) (release string, err error) {
	if key == "" {
		return "", errors.New("this program has no key of releases, because it was not built as one; " +
			"verify " + sumsName + " with minisign and the key in SECURITY.md, then run sha256sum --check " + sumsName)
	}
	public, err := minisign.NewPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("the key of releases in this program: %w", err)
	}
	dir, name := filepath.Dir(file), filepath.Base(file)
	sums, err := read(filepath.Join(dir, sumsName))
	if err != nil {
		return "", err
	}
	text, err := read(filepath.Join(dir, sumsName+".minisig"))
	if err != nil {
		return "", err
	}
	signature, err := minisign.DecodeSignature(string(text))
	if err != nil {
		return "", fmt.Errorf("%s.minisig is not a signature by minisign: %w", sumsName, err)
	}
	if ok, err := public.Verify(sums, signature); !ok || err != nil {
		return "", fmt.Errorf("do not use %s: %s is not signed by the key of this program: %w", file, sumsName, err)
	}
	// The comment is part of what is signed. The key may sign other things one day.
	release = strings.TrimPrefix(signature.TrustedComment, prefix)
	if !strings.HasPrefix(release, "belfry ") {
		return "", fmt.Errorf("do not use %s: the signature is for %q, not for a release of Belfry", file, release)
	}
	if name == sumsName {
		return release, nil
	}
	return release, compare(file, name, sums)
}

func compare(file, name string, sums []byte) error {
	want := ""
	for line := range bytes.Lines(sums) {
		if sum, listed, ok := strings.Cut(strings.TrimRight(string(line), "\n"), "  "); ok && listed == name {
			want = sum
		}
	}
	if want == "" {
		return fmt.Errorf("%s is not in %s; a file of a release must keep its name", name, sumsName)
	}
	got, err := checksum(file)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("do not use %s: its checksum is %s, and %s is signed", file, got, want)
	}
	return nil
}

func read(file string) ([]byte, error) {
	f, err := os.Open(file) //nolint:gosec // the user names the file
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w; download it from the same release, into the same directory", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxSums+1))
	if err == nil && len(content) > maxSums {
		err = fmt.Errorf("%s has more than %d bytes, so it is not of a release", file, maxSums)
	}
	return content, err
}

func checksum(file string) (string, error) {
	f, err := os.Open(file) //nolint:gosec // the user names the file
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
