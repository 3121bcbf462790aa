package access

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

	"github.com/belfry-dev/belfry/internal/job"
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
	return &job.Problem{Field: "name", Problem: job.Quote(name) + " is not the name of a namespace", Fix: "use 1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends"}
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

// KeyParams is a key to be made.
type KeyParams struct {
	Namespace uuid.UUID
	Name      string
	Role      Role
	Queues    []string      // of a worker: those that it is good for
	ExpiresIn time.Duration // 0: never
	Actor     string
}

// MaxKeyLife bounds how long a key with an end may live.
const MaxKeyLife = 10 * 366 * 24 * time.Hour

// Validate returns every problem of an order at once: see [job.Problems].
func (o KeyParams) Validate() error {
	var c job.Checker
	c.Name(o.Name)
	job.OneOf(&c, "role", o.Role, append(slices.Clone(Roles), Worker)...)
	checkKeyQueues(&c, o)
	if o.ExpiresIn < 0 || o.ExpiresIn > MaxKeyLife {
		c.Add("expires_in", "it is not between 0 and 10 years", "leave it out for a key that does not expire")
	}
	return errors.Join(c...)
}

// MaxKeyQueues bounds the queues of one key.
const MaxKeyQueues = 100

func checkKeyQueues(c *job.Checker, o KeyParams) {
	switch {
	case o.Role != Worker && len(o.Queues) > 0:
		c.Add("queues", "only a key of role worker is bound to queues", "leave them out")
	case o.Role == Worker && (len(o.Queues) == 0 || len(o.Queues) > MaxKeyQueues):
		c.Add("queues", fmt.Sprintf("%d queues", len(o.Queues)), fmt.Sprintf("name the queues that the worker serves, 1 to %d", MaxKeyQueues))
	}
	for _, q := range o.Queues {
		if !job.ValidQueueName(q) {
			c.Add("queues", job.Quote(q)+" is not a queue name", "use 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit")
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
func (p Principal) Actor() string { return "key:" + p.KeyName + " [" + job.FormatKeyID(p.Key) + "]" }

// A key's secret is "bfk_", 32 random bytes and a checksum of those, in the
// job.Alphabet of ids. The prefix lets scanners of leaked secrets find it, and the
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
	return keyPrefix + job.Alphabet.EncodeToString(b)
}

// KeyHash is what is stored of a secret. A secret that FormatKey did not make is
// ErrBadKey.
func KeyHash(secret string) (hash [32]byte, err error) {
	var b [checkedBytes]byte
	if !job.DecodeID(secret, keyPrefix, b[:]) || binary.BigEndian.Uint32(b[secretBytes:]) != crc32.ChecksumIEEE(b[:secretBytes]) {
		return hash, ErrBadKey
	}
	return sha256.Sum256([]byte(secret)), nil
}

// KeyShown is the part of a secret that may be shown.
func KeyShown(secret string) string { return secret[:min(len(secret), shownOfKey)] }
