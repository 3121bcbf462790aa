package access

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// AuditEntry is one change that somebody asked for.
type AuditEntry struct {
	Seq    int64
	At     time.Time
	Actor  string
	Action string // "job.create"
	Object string // a public id or a name
	Detail string // JSON
	Hash   [32]byte
}

// Chain is the hash of an entry: it covers the one before it, so that an entry
// cannot be changed, taken out or moved without changing all after it.
func (e AuditEntry) Chain(namespace uuid.UUID, before [32]byte) [32]byte {
	h := sha256.New()
	put := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	put(before[:])
	put(namespace[:])
	put(binary.BigEndian.AppendUint64(nil, uint64(e.Seq)))
	put(binary.BigEndian.AppendUint64(nil, uint64(e.At.UnixMicro())))
	for _, s := range []string{e.Actor, e.Action, e.Object, e.Detail} {
		put([]byte(s))
	}
	return [32]byte(h.Sum(nil))
}

// AuditMark is how far a chain was verified: the last entry that is good, and its
// hash. Zero: from the first one on.
type AuditMark struct {
	Seq  int64    `json:"seq"`
	Hash [32]byte `json:"hash"`
}

// AuditBroken says that an entry is not what was written there.
type AuditBroken struct { //nolint:errname // what is broken is the log
	Seq int64
	At  time.Time
}

func (b *AuditBroken) Error() string {
	return fmt.Sprintf("entry %d of %s is not what was written there: it, or one before it, was changed or removed", b.Seq, b.At.Format(time.RFC3339))
}
