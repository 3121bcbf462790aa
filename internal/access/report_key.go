package access

import (
	"errors"
	"time"
)

// ReportKeys are keys of the cluster for run tokens. The first one signs, and all of them are accepted.
type ReportKeys [][]byte

// First is the key that signs; nil: there is none.
func (k ReportKeys) First() []byte {
	if len(k) == 0 {
		return nil
	}
	return k[0]
}

// ReportKeyRing has the keys of the cluster for run tokens, as they are now.
type ReportKeyRing interface {
	Keys() ReportKeys
	// Stale returns whether other nodes may sign with a key that this one does not have.
	Stale() bool
}

// Keys returns the keys: a ReportKeyRing of keys that do not change.
func (k ReportKeys) Keys() ReportKeys { return k }

// Stale returns false.
func (k ReportKeys) Stale() bool { return false }

// TimedReportKey is a key as a node read it. Its times count from the read, by the clock of the database.
type TimedReportKey struct {
	Name   string
	Secret []byte        // nil: it does not open with the keyset of the node
	UseIn  time.Duration // when nodes begin to sign with it
	EndsIn time.Duration // when nodes stop accepting it
}

// TimedReportKeys are keys as a node read them, the newest first.
type TimedReportKeys []TimedReportKey

// After returns the keys that are accepted when a time has passed since the read. The newest that is in use signs, or
// the next one if none is.
func (k TimedReportKeys) After(d time.Duration) (out ReportKeys) {
	first, used := 0, false
	for _, key := range k {
		if key.Secret == nil || key.EndsIn <= d {
			continue
		}
		out = append(out, key.Secret)
		if !used {
			first, used = len(out)-1, key.UseIn <= d
		}
	}
	if len(out) > 0 {
		out[0], out[first] = out[first], out[0]
	}
	return out
}

// ReportKey is what may be shown about a key for run tokens.
type ReportKey struct {
	Name   string
	Sealed bool      // encrypted with the keyset of secrets
	UseAt  time.Time // when nodes begin to sign with it
	Until  time.Time // when nodes stop accepting it; zero: it was not replaced
}

const (
	// ReportKeySize is the length of a key in bytes.
	ReportKeySize = 32
	// MaxReportKeys is how many keys may be accepted at the same time. A rotation that ends the others may double it, so
	// that it is possible after a leak whatever there is.
	MaxReportKeys = 10
	// ReportKeyPause is the pause of a node between two reads of the keys.
	ReportKeyPause = time.Minute
	// ReportKeyLead is how long before its use a key is added, so that all nodes have read it by then.
	ReportKeyLead = 5 * ReportKeyPause
	// ReportKeyGrace is how much longer old keys are accepted, for nodes that begin to sign with the new one late.
	ReportKeyGrace = 2 * ReportKeyPause
)

// ErrSealedReportKey says that a node cannot decrypt a key for run tokens.
var ErrSealedReportKey = errors.New("the key is encrypted with the keyset of the cluster: give this node the keyset " +
	"that the other nodes have, by the setting secrets.keyset_file; if that keyset is lost, stop all nodes, run " +
	"belfry report-key rotate --keep 0s with a new keyset, give it to all nodes, and start them 7 minutes later")

// ErrNoReportKey says that the database has no key for run tokens.
var ErrNoReportKey = errors.New("there is none: run belfry report-key rotate with the database URL of the owner " +
	"and the keyset of the nodes, then start the nodes")

// ReportKeyBound is the context that a key for run tokens is sealed with: it opens in no other.
func ReportKeyBound(name string) []byte { return []byte("belfry report key " + name) }
