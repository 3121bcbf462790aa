// Package seal encrypts what is stored and must not be read from the database: a
// dump, a backup or a replica holds nothing that can be used.
//
// The keys are a Tink keyset, which the operator keeps outside of the database. One
// of its keys encrypts, all of them decrypt: so a key is replaced in steps, none of
// which a running cluster notices. Add a key and give the keyset to all nodes; Use
// it and give it to all nodes again, which then seal anew what the old key sealed;
// Drop the old one.
package seal

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// maxKeys bounds a keyset.
const maxKeys = 20

// Keyset seals and opens. Safe for concurrent use.
type Keyset struct {
	handle *keyset.Handle
	aead   tink.AEAD
	prefix []byte // of what the key in use seals
}

// New makes a keyset with one key.
func New() (*Keyset, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("make a keyset: %w", err)
	}
	return of(handle)
}

// Read reads a keyset as Text has written it. Errors do not repeat it.
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
	k.prefix = probe[:5] // Tink's: a version, and the number of the key
	return k, nil
}

// Text is the keyset itself, for its owner to keep.
func (k *Keyset) Text() (string, error) {
	var out bytes.Buffer
	if err := insecurecleartextkeyset.Write(k.handle, keyset.NewJSONWriter(&out)); err != nil {
		return "", fmt.Errorf("write the keyset: %w", err)
	}
	return out.String(), nil
}

// Seal encrypts. What is sealed opens only with the same bound, which is not
// stored with it: where it belongs.
func (k *Keyset) Seal(plain, bound []byte) ([]byte, error) { return k.aead.Encrypt(plain, bound) }

// Open decrypts.
func (k *Keyset) Open(sealed, bound []byte) ([]byte, error) {
	plain, err := k.aead.Decrypt(sealed, bound)
	if err != nil {
		return nil, errors.New("it cannot be decrypted: the keyset lacks its key, or it was sealed for another place")
	}
	return plain, nil
}

// Prefix is how all begins that the key in use has sealed.
func (k *Keyset) Prefix() []byte { return k.prefix }

// Add returns the keyset with a further key, which decrypts and is not in use.
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

// Drop returns the keyset with the key in use alone, and says how many went.
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
