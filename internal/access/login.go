package access

import (
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Login is a login session of the web UI. A browser sends its secret as a cookie, and acts as the key or the person that
// logged in.
type Login struct {
	ID        uuid.UUID
	Name      string // of the person who logged in; empty: a key logged in
	Client    string // how the browser describes itself
	CreatedAt time.Time
	UsedAt    time.Time // accurate to LoginTouch
	ExpiresAt time.Time
}

const (
	// LoginLife is how long a login session lasts at most. It also ends with its key.
	LoginLife = 12 * time.Hour
	// LoginIdle is how long a login session lasts without a request.
	LoginIdle = time.Hour
	// LoginTouch is how often a request may write that the session is in use. Other requests only read.
	LoginTouch = time.Minute
	// MaxLogins is how many login sessions a key, or a person in a namespace, has at the same time.
	MaxLogins = 20
	// maxClient bounds Login.Client.
	maxClient = 200
)

// LoginParams is a login session to create.
type LoginParams struct {
	Principal // the key or the person that logs in
	Client    string
	// ID is the id of the session, which can be created once. Zero: a new one.
	ID uuid.UUID
	// Until is when the session ends at the latest. Zero: after LoginLife.
	Until time.Time
}

// RevokeLoginsParams says whose login sessions end.
type RevokeLoginsParams struct {
	Namespace uuid.UUID
	Owner     uuid.UUID // a key, or a person
	Object    string    // the owner, as the audit log names it
	Actor     string
}

// ShortClient returns the part of a browser's description of itself that is kept.
func ShortClient(userAgent string) string { return shorten(userAgent, maxClient) }

// shorten returns the first printable characters of a string.
func shorten(text string, most int) string {
	kept := make([]rune, 0, most)
	for _, r := range text {
		if len(kept) == most {
			break
		}
		if printable(r) {
			kept = append(kept, r)
		}
	}
	return string(kept)
}

func printable(r rune) bool { return r >= ' ' && r != 0x7f && r != 0xfffd }

const loginIDPrefix = "login_"

// FormatLoginID is the public id of a login session. It is not a secret.
func FormatLoginID(id uuid.UUID) string { return loginIDPrefix + job.Alphabet.EncodeToString(id[:]) }

// loginPrefix begins the secret of a login session, which has the form of a key's.
const loginPrefix = "bfs_"

// FormatLogin returns the secret of a login session for random bytes.
func FormatLogin(random [secretBytes]byte) string { return formatSecret(loginPrefix, random) }

// LoginHash is what the database stores of a secret. It returns ErrBadKey for a string that FormatLogin did not make.
func LoginHash(secret string) (hash [32]byte, err error) { return secretHash(loginPrefix, secret) }
