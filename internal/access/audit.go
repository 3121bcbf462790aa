package access

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// AuditEntry records one change that a user requested.
type AuditEntry struct {
	Seq    int64
	At     time.Time
	Actor  string
	Action string // for example "job.create"
	Object string // a public id or a name
	Detail string // JSON
	Origin Origin // zero: no request led to it
	Hash   [32]byte
	Seal   []byte // by a key of the keyset: see SealBound; nil: its writer had none
}

// SealBound is what the seal of an entry is bound to. The hash covers the whole chain up to the entry, so whoever lacks
// the keyset can neither change an entry nor write one.
func (e AuditEntry) SealBound() []byte { return append([]byte("belfry audit log "), e.Hash[:]...) }

// Chain is the hash of an entry. It covers the hash of the entry before it, so changing, removing or moving an entry
// changes the hash of every later one.
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
	for _, s := range []string{e.Actor, e.Action, e.Object, e.Detail, e.Origin.Address, e.Origin.Request} {
		put([]byte(s))
	}
	return [32]byte(h.Sum(nil))
}

// AuditMark is how far a chain was verified: the last verified entry and its hash. The zero value is before the first
// entry.
type AuditMark struct {
	Seq  int64    `json:"seq"`
	Hash [32]byte `json:"hash"`
}

// String is the mark as logs, the API and the command line have it: the sequence number and the hash, 12:3q2+7w….
func (m AuditMark) String() string {
	return strconv.FormatInt(m.Seq, 10) + ":" + base64.StdEncoding.EncodeToString(m.Hash[:])
}

// ParseAuditMark parses what String returns.
func ParseAuditMark(text string) (m AuditMark, ok bool) {
	seq, hash, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(seq, 10, 64)
	sum, wrong := base64.StdEncoding.DecodeString(hash)
	if err != nil || wrong != nil || n < 1 || len(sum) != len(m.Hash) {
		return AuditMark{}, false
	}
	return AuditMark{Seq: n, Hash: [32]byte(sum)}, true
}

// AuditHead is the last entry of the audit log of a namespace.
type AuditHead struct {
	Namespace string
	AuditMark
}

// AuditBroken says that the hash of an entry does not match, or that an entry which was there is gone.
type AuditBroken struct { //nolint:errname // the log is broken, not the check
	Seq int64
	At  time.Time // zero: there is no such entry
}

func (b *AuditBroken) Error() string {
	if b.At.IsZero() {
		return fmt.Sprintf("entry %d is not there: entries were removed from the end", b.Seq)
	}
	return fmt.Sprintf("entry %d of %s is not what was written there: it, or one before it, was changed or removed",
		b.Seq, b.At.Format(time.RFC3339))
}

// AuditParams selects entries of the audit log of a namespace. A zero filter selects all.
type AuditParams struct {
	Namespace uuid.UUID
	// Actor is what entries have, or the name or id of a key or a person.
	Actor string
	// Action is an action such as "job.pause", or all actions on a kind of object, such as "job".
	Action   string
	Object   string
	From, To time.Time // From is included, To is not
	Before   int64     // only entries with a lower sequence number; 0: all
	Limit    int
}

// AuditPage is a page of the audit log, newest first.
type AuditPage struct {
	Entries []AuditEntry
	// Next is the sequence number before which the next page begins. 0: there is none. A page may be shorter than the
	// limit even if there is a next one: the filters matched few of the entries that were read.
	Next int64
}
