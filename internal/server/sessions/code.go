package sessions

import (
	"crypto/rand"
	"crypto/subtle"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
)

// codeLife is how long a code can be used.
const codeLife = 10 * time.Minute

// Code lets one browser on this machine log in without a key. Only belfry dev has one: it prints a link with the code,
// so that the first page is the UI and not a login form. A code works once. It is safe for concurrent use.
type Code struct {
	text string

	mu    sync.Mutex
	key   string        // empty: the code was used
	until time.Duration // by clock.Elapsed
}

// NewCode returns a code that logs in with a key.
func NewCode(key string) *Code {
	return &Code{text: rand.Text(), key: key, until: clock.Elapsed() + codeLife}
}

// Text is the code itself.
func (c *Code) Text() string { return c.text }

// matches reports whether a text is this code and can still be used. A nil Code matches nothing.
func (c *Code) matches(text string) bool {
	if c == nil || subtle.ConstantTimeCompare([]byte(text), []byte(c.text)) == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.key != "" && clock.Elapsed() < c.until
}

// use calls logIn with the key. The code is used up if that succeeds. It reports false if the code was used up before.
func (c *Code) use(logIn func(key string) error) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key == "" {
		return false, nil
	}
	err := logIn(c.key)
	if err == nil {
		c.key = ""
	}
	return true, err
}
