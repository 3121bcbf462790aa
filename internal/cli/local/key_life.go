package local

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// keyLife is a flag that says how long a key works. Without it, the key does not expire.
type keyLife struct {
	text string
	life time.Duration
}

func newKeyLife(flags *pflag.FlagSet, name string) *keyLife {
	l := &keyLife{}
	flags.Var(l, name, "how long the key works, such as 24h or 90d (default: until it is revoked)")
	return l
}

func (l *keyLife) Set(text string) (err error) {
	l.text = text
	if l.life, err = schedule.ParseDuration(text); err != nil || l.life < access.MinKeyLife || l.life > access.MaxKeyLife {
		return errors.New("use a time of at most 10 years, such as 24h or 90d")
	}
	return nil
}

func (l *keyLife) String() string { return l.text }

func (*keyLife) Type() string { return "string" }

// named returns what to call a key with this life.
func (l *keyLife) named(key string) string {
	if l.life == 0 {
		return key
	}
	return key + " for " + l.text
}
