// Package seal encrypts values that must not be readable in the database, a dump, a backup or a replica.
//
// The keys are a Tink keyset, which the operator keeps outside of the database. One of its keys encrypts, and all of
// them decrypt, so a key can be replaced without stopping the cluster:
//
//  1. Add a key, and give the keyset to all nodes.
//  2. Use the key, and give the keyset to all nodes again. They then seal existing values again.
//  3. Drop the old key.
package seal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// maxKeys bounds a keyset.
const maxKeys = 20

// Keyset encrypts and decrypts values. It is safe for concurrent use.
type Keyset struct {
	handle *keyset.Handle
	aead   tink.AEAD
	prefix []byte // of values that the key in use has sealed
}

// New creates a keyset with one key.
func New() (*Keyset, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("create a keyset: %w", err)
	}
	return of(handle)
}

// Read reads a keyset that Text has written. Errors do not repeat the text.
func Read(text string) (*Keyset, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(strings.NewReader(text)))
	if err != nil {
		return nil, errors.New("it is not a keyset; belfry secret keyset new makes one")
	}
	return of(handle)
}

func of(handle *keyset.Handle) (*Keyset, error) {
	k := &Keyset{handle: handle}
	var err error
	if k.aead, err = aead.New(handle); err != nil {
		return nil, errors.New("it is a keyset, but not one for encryption; belfry secret keyset new makes one")
	}
	probe, err := k.aead.Encrypt(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("use the keyset: %w", err)
	}
	k.prefix = probe[:5] // of Tink: a version and the id of the key
	return k, nil
}

// Text returns the keyset with its secret keys, for the operator to store.
func (k *Keyset) Text() (string, error) {
	var out bytes.Buffer
	if err := insecurecleartextkeyset.Write(k.handle, keyset.NewJSONWriter(&out)); err != nil {
		return "", fmt.Errorf("write the keyset: %w", err)
	}
	return out.String(), nil
}

// Seal encrypts a value. It opens only with the same bound, which says where the value belongs and is not stored with
// it.
func (k *Keyset) Seal(plain, bound []byte) ([]byte, error) { return k.aead.Encrypt(plain, bound) }

// Open decrypts a value.
func (k *Keyset) Open(sealed, bound []byte) ([]byte, error) {
	plain, err := k.aead.Decrypt(sealed, bound)
	if err != nil {
		return nil, errors.New("it cannot be decrypted: the keyset lacks its key, or it was sealed for another place")
	}
	return plain, nil
}

// Fingerprint is the same for keysets with the same keys and the same key in use. It reveals nothing about the keys.
func (k *Keyset) Fingerprint() string {
	ids := make([]uint32, 0, k.handle.Len())
	for i := range k.handle.Len() {
		if entry, err := k.handle.Entry(i); err == nil {
			ids = append(ids, entry.KeyID())
		}
	}
	slices.Sort(ids)
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %x", ids, k.prefix))
	return hex.EncodeToString(sum[:8])
}

// Prefix is the beginning of every value that the key in use has sealed.
func (k *Keyset) Prefix() []byte { return k.prefix }

// Knows reports whether the keyset has the key that sealed a value.
func (k *Keyset) Knows(sealed []byte) bool {
	if len(sealed) < len(k.prefix) || sealed[0] != k.prefix[0] {
		return false
	}
	id := binary.BigEndian.Uint32(sealed[1:])
	for i := range k.handle.Len() {
		if entry, err := k.handle.Entry(i); err == nil && entry.KeyID() == id {
			return true
		}
	}
	return false
}

// Add returns the keyset with another key, which only decrypts until it is in use.
func (k *Keyset) Add() (*Keyset, error) {
	if k.handle.Len() >= maxKeys {
		return nil, fmt.Errorf("the keyset has %d keys; drop the old ones first", k.handle.Len())
	}
	return k.change(func(m *keyset.Manager) error {
		_, err := m.Add(aead.AES256GCMKeyTemplate())
		return err
	})
}

// Use returns the keyset with its newest key in use.
func (k *Keyset) Use() (*Keyset, error) {
	newest, err := k.handle.Entry(k.handle.Len() - 1)
	if err != nil {
		return nil, err
	}
	return k.change(func(m *keyset.Manager) error { return m.SetPrimary(newest.KeyID()) })
}

// Drop returns the keyset with only the key in use, and how many keys it dropped.
func (k *Keyset) Drop() (out *Keyset, dropped int, err error) {
	out, err = k.change(func(m *keyset.Manager) error {
		for i := range k.handle.Len() {
			entry, err := k.handle.Entry(i)
			if err != nil {
				return err
			}
			if entry.IsPrimary() {
				continue
			}
			if err := m.Delete(entry.KeyID()); err != nil {
				return err
			}
			dropped++
		}
		return nil
	})
	return out, dropped, err
}

func (k *Keyset) change(do func(*keyset.Manager) error) (*Keyset, error) {
	m := keyset.NewManagerFromHandle(k.handle)
	if err := do(m); err != nil {
		return nil, err
	}
	handle, err := m.Handle()
	if err != nil {
		return nil, err
	}
	return of(handle)
}
