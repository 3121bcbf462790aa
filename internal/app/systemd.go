package app

import (
	"log/slog"

	"github.com/belfry-dev/belfry/internal/systemd"
)

// NewNotifier returns the connection to the service manager that the environment asks for; nil: none. Its watchdog gets
// a beat while the node renews its session, plans and sweeps. A round of these loops that waits for the database ends
// after 65 seconds, so the watchdog's time has to be longer than that.
func NewNotifier(getenv func(string) string) (*systemd.Notifier, error) {
	return systemd.New(getenv, "renew", "plan", "sweep")
}

const working = "working"

// round notes that a loop has ended a round, and reports whether the node works.
func (n *node) round(loop string) {
	n.config.Systemd.Round(loop)
	status := working
	if doubt := n.bound.Doubt(); !n.member.Valid() {
		status = noSession + "; its log says why"
	} else if doubt != "" {
		status = doubt
	}
	reportState(n.log, n.config.Systemd.Status(status))
}

// reportState logs that the service manager did not receive a state of the node.
func reportState(log *slog.Logger, err error) {
	if err != nil {
		log.Warn("report to systemd failed", "error", err)
	}
}
