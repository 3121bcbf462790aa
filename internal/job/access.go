package job

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Role is what a key may do. Each may all that the one below it may, but for
// Worker, which stands beside them.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"   // read
	Operator Role = "operator" // and pause, resume, trigger, cancel, retry, redrive, discard
	Editor   Role = "editor"   // and create, change and delete jobs and queues
	Admin    Role = "admin"    // and keys and the audit log
	Worker   Role = "worker"   // claim and report runs of the key's queues, and nothing else
)

// Roles in the order of what they may.
var Roles = []Role{Viewer, Operator, Editor, Admin}

// May says whether a role includes another. Editors may do a worker's work: who
// decides where runs go could have them anyway.
func (r Role) May(need Role) bool {
	if need == Worker {
		return r == Worker || r.May(Editor)
	}
	have := slices.Index(Roles, r)
	return have >= 0 && have >= slices.Index(Roles, need)
}

// Namespace is a border of names, keys and reads.
type Namespace struct {
	ID        uuid.UUID
	Name      string
	CreatedAt time.Time
}

var namespaceForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidateNamespace says what is wrong with the name of a namespace.
func ValidateNamespace(name string) error {
	if namespaceForm.MatchString(name) {
		return nil
	}
	return &Problem{Field: "name", Problem: quote(name) + " is not the name of a namespace", Fix: "use 1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends"}
}

// DefaultNamespace is the one that a migration makes.
var DefaultNamespace = uuid.MustParse("00000000-0000-7000-8000-000000000001")

// APIKey is a credential of a namespace, without its secret.
type APIKey struct {
	ID        uuid.UUID
	Namespace uuid.UUID
	Name      string
	Role      Role
	Queues    []string // of a worker
	Prefix    string   // the beginning of the secret, to tell keys apart
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	RevokedAt time.Time // zero: it is not
}

// KeyOrder is a key to be made.
type KeyOrder struct {
	Namespace uuid.UUID
	Name      string
	Role      Role
	Queues    []string      // of a worker: those that it is good for
	ExpiresIn time.Duration // 0: never
	Actor     string
}

// MaxKeyLife bounds how long a key with an end may live.
const MaxKeyLife = 10 * 366 * 24 * time.Hour

// Validate returns every problem of an order at once: see [Problems].
func (o KeyOrder) Validate() error {
	var c checker
	c.name(o.Name)
	oneOf(&c, "role", o.Role, append(slices.Clone(Roles), Worker)...)
	c.keyQueues(o)
	if o.ExpiresIn < 0 || o.ExpiresIn > MaxKeyLife {
		c.add("expires_in", "it is not between 0 and 10 years", "leave it out for a key that does not expire")
	}
	return errors.Join(c...)
}

// MaxKeyQueues bounds the queues of one key.
const MaxKeyQueues = 100

func (c *checker) keyQueues(o KeyOrder) {
	switch {
	case o.Role != Worker && len(o.Queues) > 0:
		c.add("queues", "only a key of role worker is bound to queues", "leave them out")
	case o.Role == Worker && (len(o.Queues) == 0 || len(o.Queues) > MaxKeyQueues):
		c.add("queues", fmt.Sprintf("%d queues", len(o.Queues)), fmt.Sprintf("name the queues that the worker serves, 1 to %d", MaxKeyQueues))
	}
	for _, q := range o.Queues {
		if !queueForm.MatchString(q) {
			c.add("queues", quote(q)+" is not a queue name", "use 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit")
			return
		}
	}
}

// Principal is who asks: a key that was found to be good.
type Principal struct {
	Key           uuid.UUID
	KeyName       string
	Namespace     uuid.UUID
	NamespaceName string
	Role          Role
	Queues        []string // of a worker
	// Left is how long the key works on, counted from when it was asked about;
	// 0: until it is revoked.
	Left time.Duration
}

// Serves says whether the principal may have the runs of a queue.
func (p Principal) Serves(queue string) bool {
	return p.Role.May(Editor) || p.Role == Worker && slices.Contains(p.Queues, queue)
}

// Actor is how the principal is named in versions and in the audit log: by its
// name, for people, and by its id, as names are not unique.
func (p Principal) Actor() string { return "key:" + p.KeyName + " [" + FormatKeyID(p.Key) + "]" }

// A key's secret is "bfk_", 32 random bytes and a checksum of those, in the
// alphabet of ids. The prefix lets scanners of leaked secrets find it, and the
// checksum lets the server refuse a typing error without asking the database.
const (
	keyPrefix    = "bfk_"
	secretBytes  = 32
	shownOfKey   = len(keyPrefix) + 6
	checkedBytes = secretBytes + 4
)

// ErrBadKey says that a text is not a key.
var ErrBadKey = errors.New("job: not an API key")

// FormatKey makes the secret of random bytes.
func FormatKey(random [secretBytes]byte) string {
	b := binary.BigEndian.AppendUint32(random[:], crc32.ChecksumIEEE(random[:]))
	return keyPrefix + alphabet.EncodeToString(b)
}

// KeyHash is what is stored of a secret. A secret that FormatKey did not make is
// ErrBadKey.
func KeyHash(secret string) (hash [32]byte, err error) {
	var b [checkedBytes]byte
	if !decode(secret, keyPrefix, b[:]) || binary.BigEndian.Uint32(b[secretBytes:]) != crc32.ChecksumIEEE(b[:secretBytes]) {
		return hash, ErrBadKey
	}
	return sha256.Sum256([]byte(secret)), nil
}

// KeyShown is the part of a secret that may be shown.
func KeyShown(secret string) string { return secret[:min(len(secret), shownOfKey)] }

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
