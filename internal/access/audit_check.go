package access

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// AuditCheck is how far a chain was verified, and what is known about the seals of its entries.
type AuditCheck struct {
	AuditMark
	// UnsealedTo is the last entry that may lack a seal for a reason that the caller knows.
	UnsealedTo int64 `json:"unsealed_to,omitempty"`
	SealedFrom int64 `json:"sealed_from,omitempty"` // the first entry that has a seal; 0: none
	Sealed     int64 `json:"sealed,omitempty"`      // entries whose seal was checked
	Unsealed   int64 `json:"unsealed,omitempty"`    // entries without a seal
	Unchecked  int64 `json:"unchecked,omitempty"`   // entries whose seal cannot be checked, because the key is not known
	// Marked says that the caller kept the mark elsewhere. If the node also has a keyset, each entry after the mark must
	// have a seal, even if no entry before it has one: whoever can write to the database can remove seals.
	Marked bool `json:"marked,omitempty"`
	Keyset bool `json:"-"` // the node that checks has a keyset

	good bool // the seal of an entry, or of the mark, was good
}

// SealState is what is known about the seal of an entry.
type SealState int

// The states.
const (
	SealNone    SealState = iota // the entry has no seal
	SealUnknown                  // its key is not known
	SealGood
	SealBad
)

// Next verifies the entry after the mark, whose seal was checked.
func (c *AuditCheck) Next(namespace uuid.UUID, e AuditEntry, seal SealState) error {
	if e.Seq != c.Seq+1 || e.Hash != e.Chain(namespace, c.Hash) || seal == SealBad {
		return &AuditBroken{Seq: c.Seq + 1, At: e.At}
	}
	// Keys are replaced by newer ones, so that the oldest seals are those of dropped keys. Only someone without the
	// keyset writes less after it.
	demanded := c.SealedFrom > 0 || c.Marked && c.Keyset
	less := seal == SealNone && demanded || seal == SealUnknown && c.good
	if less && e.Seq > c.UnsealedTo {
		return &AuditUnsealed{Seq: e.Seq, At: e.At}
	}
	c.AuditMark = AuditMark{Seq: e.Seq, Hash: e.Hash}
	c.good = c.good || seal == SealGood
	c.count(seal)
	return nil
}

// Resume begins at the entry of the mark, which must still be there.
func (c *AuditCheck) Resume(e AuditEntry, seal SealState) error {
	if e.Seq != c.Seq || e.Hash != c.Hash || seal == SealBad {
		return &AuditBroken{Seq: c.Seq, At: e.At}
	}
	c.good = c.good || seal == SealGood || c.Sealed > 0
	if c.SealedFrom == 0 && seal != SealNone {
		c.SealedFrom = e.Seq
	}
	return nil
}

func (c *AuditCheck) count(seal SealState) {
	switch seal {
	case SealNone:
		c.Unsealed++
		return
	case SealUnknown:
		c.Unchecked++
	default:
		c.Sealed++
	}
	if c.SealedFrom == 0 {
		c.SealedFrom = c.Seq
	}
}

// AuditUnsealed says that an entry lacks a seal that can be checked, although an entry before it has one, or it is later
// than a mark.
type AuditUnsealed struct { //nolint:errname // the log is suspicious, not the check
	Seq int64
	At  time.Time
}

func (u *AuditUnsealed) Error() string {
	return fmt.Sprintf("entry %d of %s has no seal of a key that this node has, although entries before it have one, "+
		"or it is later than the mark: who wrote it did not have the keyset. Nodes without it, and those of an older "+
		"version, write such entries. If that is the reason, name the last of them with unsealed_to",
		u.Seq, u.At.Format(time.RFC3339))
}
