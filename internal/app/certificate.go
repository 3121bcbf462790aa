package app

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/telemetry"
)

// certificateFor is how long the files of a certificate are not looked at again.
const certificateFor = time.Minute

// certificate is read again when it is old: those of today live for weeks and are
// renewed by machines, and a node must not need a restart for that.
type certificate struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	read    time.Duration // clock.Elapsed
	trouble telemetry.Trouble
}

func readCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read tls_cert and tls_key: %w", err)
	}
	return &certificate{cert: cert, key: key, log: log, pair: &pair, read: clock.Elapsed()}, nil
}

// get is for tls.Config. One that cannot be read leaves the one before in use.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if clock.Elapsed()-c.read < certificateFor {
		return c.pair, nil
	}
	c.read = clock.Elapsed()
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		c.trouble.Failed(c.log, "cannot read the certificate again", err)
		return c.pair, nil
	}
	c.trouble.Worked(c.log, "certificate read again")
	c.pair = &pair
	return c.pair, nil
}
