package access

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

// Role is what a key may do. Each role includes those before it in Roles. Worker is separate.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"   // read
	Operator Role = "operator" // and pause, resume, trigger, cancel, retry, redrive, discard
	Editor   Role = "editor"   // and create, change and delete jobs and queues
	Admin    Role = "admin"    // and manage keys and read the audit log
	Worker   Role = "worker"   // claim and report runs of the key's queues, and nothing else
)

// Roles from the least to the most powerful, without Worker.
var Roles = []Role{Viewer, Operator, Editor, Admin}

// May reports whether a role includes another. Editors include workers: an editor can route any run to itself anyway.
func (r Role) May(need Role) bool {
	if need == Worker {
		return r == Worker || r.May(Editor)
	}
	have, least := slices.Index(Roles, r), slices.Index(Roles, need)
	return have >= least && least >= 0
}

// Namespace separates names, keys and reads.
type Namespace struct {
	ID        uuid.UUID
	Name      string
	CreatedAt time.Time
}

var namespaceForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidateNamespace returns the problem with the name of a namespace.
func ValidateNamespace(name string) error {
	if namespaceForm.MatchString(name) {
		return nil
	}
	return &problem.Problem{
		Field: "name", Problem: problem.Quote(name) + " is not the name of a namespace",
		Fix: "use 1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends",
	}
}

// DefaultNamespace is created by the migrations.
var DefaultNamespace = uuid.MustParse("00000000-0000-7000-8000-000000000001")

// CanaryNamespace has the job that nodes keep to show that runs start on time. Keys may look at it and change nothing.
var CanaryNamespace = uuid.MustParse("00000000-0000-7000-8000-0000000000ca")

// CanaryName is the name of CanaryNamespace.
const CanaryName = "belfry-canary"

// APIKey is a credential of a namespace, without its secret.
type APIKey struct {
	ID        uuid.UUID
	Namespace uuid.UUID
	Name      string
	Role      Role
	Queues    []string // that a worker's key may serve
	Prefix    string   // the beginning of the secret, to distinguish keys
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt time.Time // zero means never
	RevokedAt time.Time // zero unless it is revoked
}

const keyIDPrefix = "key_"

// FormatKeyID is the public id of an API key. It is not a secret.
func FormatKeyID(id uuid.UUID) string { return keyIDPrefix + job.Alphabet.EncodeToString(id[:]) }

// ParseKeyID reads exactly what FormatKeyID writes.
func ParseKeyID(s string) (uuid.UUID, error) { return job.ParseID(s, keyIDPrefix, "a key") }

// KeyParams is a key to create.
type KeyParams struct {
	Namespace uuid.UUID
	Name      string
	Role      Role
	Queues    []string      // that a worker's key may serve
	ExpiresIn time.Duration // 0 means never
	Actor     string
}

// The bounds of the lifetime of a key that expires. The database has no shorter time than a microsecond.
const (
	MinKeyLife = time.Millisecond
	MaxKeyLife = 10 * 366 * 24 * time.Hour
)

// KeyLifeProblem is the problem with a lifetime that is out of bounds.
func KeyLifeProblem() *problem.Problem {
	return problem.New("expires_in", "it is not between 1ms and 10 years",
		"write for example 90d, or leave it out for a key that does not expire")
}

// Validate returns all problems at once: see [problem.All].
func (p KeyParams) Validate() error {
	var c problem.Checker
	job.CheckName(&c, p.Name)
	if lower := strings.ToLower(p.Name); lower == "belfry" || strings.HasPrefix(lower, "key:") ||
		strings.HasPrefix(lower, "user:") {
		c.Add("name", problem.Quote(p.Name)+" is how versions and the audit log name others", "choose another name")
	}
	problem.OneOf(&c, "role", p.Role, append(slices.Clone(Roles), Worker)...)
	checkKeyQueues(&c, p)
	if p.ExpiresIn != 0 && (p.ExpiresIn < MinKeyLife || p.ExpiresIn > MaxKeyLife) {
		c = append(c, KeyLifeProblem())
	}
	return c.Err()
}

// MaxKeyQueues bounds the queues of one key.
const MaxKeyQueues = 100

func checkKeyQueues(c *problem.Checker, p KeyParams) {
	switch {
	case p.Role != Worker && len(p.Queues) > 0:
		c.Add("queues", "only a key of role worker is bound to queues", "leave them out")
	case p.Role == Worker && (len(p.Queues) == 0 || len(p.Queues) > MaxKeyQueues):
		c.Add("queues", fmt.Sprintf("%d queues", len(p.Queues)),
			fmt.Sprintf("name the queues that the worker serves, 1 to %d", MaxKeyQueues))
	}
	for _, q := range p.Queues {
		if !job.ValidQueueName(q) {
			c.Add("queues", problem.Quote(q)+" is not a queue name", job.QueueNameFix)
			return
		}
	}
}

// Principal is an authenticated caller: a valid key, or a person who logged in through an identity provider.
type Principal struct {
	Key           uuid.UUID // of a person: Person.ID
	KeyName       string    // of a person: Person.Name
	Namespace     uuid.UUID
	NamespaceName string
	Role          Role
	Queues        []string // that a worker's key may serve
	Person        Person   // zero: the principal is a key
	// Login is the login session that sent the request. Zero: the request has the key itself.
	Login uuid.UUID
	// Left is how long the key, or the login session, remains valid, counted from the lookup. 0 means until it is
	// revoked.
	Left time.Duration
}

// Serves reports whether the principal may claim the runs of a queue.
func (p Principal) Serves(queue string) bool {
	return p.Role.May(Editor) || p.Role == Worker && slices.Contains(p.Queues, queue)
}

// IsPerson reports whether the principal is a person, and not a key.
func (p Principal) IsPerson() bool { return p.Person.Subject != "" }

// ID is the public id of the key or the person.
func (p Principal) ID() string {
	if p.IsPerson() {
		return FormatPersonID(p.Key)
	}
	return FormatKeyID(p.Key)
}

// Actor names the principal in versions and in the audit log: by its name for people, and by its id because names are
// not unique.
func (p Principal) Actor() string {
	kind := "key:"
	if p.IsPerson() {
		kind = "user:"
	}
	return kind + p.KeyName + " [" + p.ID() + "]"
}

// A key's secret is "bfk_", then 32 random bytes and their checksum in job.Alphabet. Scanners for leaked secrets find
// it by the prefix, and the server rejects typing errors by the checksum, without a query.
const (
	keyPrefix    = "bfk_"
	secretBytes  = 32
	shownOfKey   = len(keyPrefix) + 6
	checkedBytes = secretBytes + 4
)

// ErrBadKey says that a string is not an API key.
var ErrBadKey = errors.New("not an API key")

// FormatKey returns the secret for random bytes.
func FormatKey(random [secretBytes]byte) string { return formatSecret(keyPrefix, random) }

// KeyHash is what the database stores of a secret. It returns ErrBadKey for a string that FormatKey did not make.
func KeyHash(secret string) (hash [32]byte, err error) { return secretHash(keyPrefix, secret) }

func formatSecret(prefix string, random [secretBytes]byte) string {
	b := binary.BigEndian.AppendUint32(random[:], crc32.ChecksumIEEE(random[:]))
	return prefix + job.Alphabet.EncodeToString(b)
}

func secretHash(prefix, secret string) (hash [32]byte, err error) {
	var b [checkedBytes]byte
	if !job.DecodeID(secret, prefix, b[:]) ||
		binary.BigEndian.Uint32(b[secretBytes:]) != crc32.ChecksumIEEE(b[:secretBytes]) {
		return hash, ErrBadKey
	}
	return sha256.Sum256([]byte(secret)), nil
}

// KeyShown is the part of a secret that may be shown.
func KeyShown(secret string) string { return secret[:min(len(secret), shownOfKey)] }
