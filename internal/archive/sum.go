package archive

import (
	"crypto/md5" //nolint:gosec // every SQL engine has it; content is protected by SHA-256
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"math/bits"
)

// Sum is a number of rows and two hashes of them that do not depend on their order.
type Sum struct {
	Rows int64
	// Keys adds up the first 60 bits of the MD5 of each key (see Run.Key). PostgreSQL and other engines can compute it.
	Keys Hash
	// Content adds up the first 128 bits of the SHA-256 of all columns, modulo 2^128.
	Content Hash
}

// Hash is a sum modulo 2^128.
type Hash struct{ high, low uint64 }

func (h *Hash) add(high, low uint64) {
	var carry uint64
	h.low, carry = bits.Add64(h.low, low, 0)
	h.high, _ = bits.Add64(h.high, high, carry)
}

// String returns the sum in decimal.
func (h Hash) String() string {
	n := new(big.Int).SetUint64(h.high)
	return n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(h.low)).String()
}

// ParseHash reads what String returns.
func ParseHash(text string) (Hash, error) {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || n.Sign() < 0 || n.BitLen() > 128 {
		return Hash{}, fmt.Errorf("%q is not a sum of hashes", text)
	}
	low := new(big.Int).And(n, new(big.Int).SetUint64(1<<64-1))
	return Hash{new(big.Int).Rsh(n, 64).Uint64(), low.Uint64()}, nil
}

// add adds a row.
func (s *Sum) add(key string, content []byte) {
	s.Rows++
	short := md5.Sum([]byte(key)) //nolint:gosec // see the import
	s.Keys.add(0, binary.BigEndian.Uint64(short[:8])>>4)
	whole := sha256.Sum256(content)
	s.Content.add(binary.BigEndian.Uint64(whole[:8]), binary.BigEndian.Uint64(whole[8:16]))
}

// Add adds a row, a *Run or a *Skip.
func (s *Sum) Add(r interface {
	Key() string
	Append(b []byte) []byte
},
) {
	s.add(r.Key(), r.Append(nil))
}

// Merge adds the rows of another sum.
func (s *Sum) Merge(other Sum) {
	s.Rows += other.Rows
	s.Keys.add(other.Keys.high, other.Keys.low)
	s.Content.add(other.Content.high, other.Content.low)
}

type sumJSON struct {
	Rows    int64  `json:"rows"`
	Keys    string `json:"keys"`
	Content string `json:"content"`
}

// MarshalJSON writes the hashes in decimal, as strings: they do not fit into the numbers of JSON.
func (s Sum) MarshalJSON() ([]byte, error) {
	return json.Marshal(sumJSON{s.Rows, s.Keys.String(), s.Content.String()})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Sum) UnmarshalJSON(text []byte) (err error) {
	var in sumJSON
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	s.Rows = in.Rows
	if s.Keys, err = ParseHash(in.Keys); err != nil {
		return err
	}
	s.Content, err = ParseHash(in.Content)
	return err
}
