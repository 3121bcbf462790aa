package app

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/telemetry"
)

// certificateFor is how long a certificate is used before its files are read again.
const certificateFor = time.Minute

// certificate reads its files again every certificateFor. Certificates are short-lived and renewed
// automatically, and a renewal must not need a restart of the node.
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

// get implements tls.Config.GetCertificate. If the files cannot be read, the last certificate stays in use.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if clock.Elapsed()-c.read < certificateFor {
		return c.pair, nil
	}
	c.read = clock.Elapsed()
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		c.trouble.Failed(c.log, "certificate reload failed", err)
		return c.pair, nil
	}
	c.trouble.Worked(c.log, "certificate reload recovered")
	c.pair = &pair
	return c.pair, nil
}

// left returns how long the certificate is valid, by the clock of this machine.
func (c *certificate) left() time.Duration {
	pair, _ := c.get(nil)
	return pair.Leaf.NotAfter.Sub(clock.Now())
}

var certificateLeftSeconds = prometheus.NewDesc("belfry_certificate_left_seconds",
	"Time until the TLS certificate of the listener expires.", nil, nil)

// certificateLeft is the metric of a certificate. It has no value without one.
type certificateLeft struct{ of atomic.Pointer[certificate] }

// Describe lists the metric.
func (c *certificateLeft) Describe(to chan<- *prometheus.Desc) { to <- certificateLeftSeconds }

// Collect sends it.
func (c *certificateLeft) Collect(to chan<- prometheus.Metric) {
	if cert := c.of.Load(); cert != nil {
		to <- prometheus.MustNewConstMetric(certificateLeftSeconds, prometheus.GaugeValue, cert.left().Seconds())
	}
}
