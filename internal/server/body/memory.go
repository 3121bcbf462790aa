package body

import (
	"bytes"
	"io"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/share"
)

const (
	perValue    = 64       // bytes of memory of a decoded value, besides its text
	perObject   = 320      // bytes of memory of an object, besides its members
	leastMemory = 16 << 10 // that a body counts for, however small it is
	smallBody   = 64 << 10 // bytes of a body that uses the memory for small ones
	smallShare  = 8        // small bodies have one part in eight of the memory
)

// memoryOf estimates the memory that a body needs until its request ends: its text, a copy of it, and its values.
func memoryOf(size, values, objects int) int64 {
	return int64(max(leastMemory, 2*size+values*perValue+objects*perObject))
}

// Pools are the memory of a node for bodies, shared by namespaces. Small bodies have a pool of their own, so that large
// ones, such as bulks, do not keep the heartbeats of workers from the node.
type Pools struct{ large, small *share.Pool }

// NewPools returns pools with so much memory in all.
func NewPools(size int) *Pools {
	small := size / smallShare
	return &Pools{large: share.New(int64(size - small)), small: share.New(int64(small))}
}

// For returns the memory of one body of a namespace, which has none yet.
func (p *Pools) For(owner uuid.UUID) Memory { return Memory{of: p, pool: p.small, owner: owner} }

// Memory is what one body has taken from the pools. Its errors are those of share.
type Memory struct {
	of    *Pools
	pool  *share.Pool
	owner uuid.UUID
	taken int64
}

// grow takes what the body does not have of n.
func (m *Memory) grow(n int64) error {
	if n <= m.taken {
		return nil
	}
	if err := m.pool.Take(m.owner, n-m.taken); err != nil {
		return err
	}
	m.taken = n
	return nil
}

// Shrink returns all but n.
func (m *Memory) Shrink(n int64) {
	if m.taken > n {
		m.pool.Give(m.owner, m.taken-n)
		m.taken = n
	}
}

// fit takes the memory for the text of a body.
func (m *Memory) fit(size int) error {
	if size > smallBody && m.pool == m.of.small {
		m.Shrink(0)
		m.pool = m.of.large
	}
	return m.grow(memoryOf(size, 0, 0))
}

// Read reads a body of a size, or, if that is negative, of any size up to one byte more than most. In this case it takes
// memory as the body grows.
func (m *Memory) Read(from io.Reader, size, most int) ([]byte, error) {
	if size >= 0 {
		if err := m.fit(size); err != nil {
			return nil, err
		}
		text := make([]byte, size)
		_, err := io.ReadFull(from, text)
		return text, err
	}
	var text bytes.Buffer
	for size := min(leastMemory/2, most+1); ; size = min(2*size, most+1) {
		if err := m.fit(size); err != nil {
			return nil, err
		}
		text.Grow(size - text.Len() + bytes.MinRead)
		_, err := text.ReadFrom(io.LimitReader(from, int64(size-text.Len())))
		if err != nil || text.Len() < size || size > most {
			return text.Bytes(), err
		}
	}
}

// Count takes the memory that the values of a body need, now that its text is there, and returns what it does not need.
// It returns the errors of Check too.
func (m *Memory) Count(text []byte, isJSON bool, maxValues int) error {
	values, objects := min(len(text)/2, maxValues), 0 // each second byte may be a value
	if isJSON {
		var err error
		if values, err = checkText(text, maxValues); err != nil {
			return err
		}
		objects = min(bytes.Count(text, []byte("{")), values)
	}
	need := memoryOf(len(text), values, objects)
	m.Shrink(need)
	return m.grow(need)
}
