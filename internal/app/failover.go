package app

import "github.com/belfry-dev/belfry/internal/job"

// failedOver reports a failover of the database.
func (n *node) failedOver(f job.Failover) {
	writes := f.Writes()
	n.metrics.failover.WithLabelValues(string(writes)).Inc()
	attrs := []any{"timeline", f.Timeline, "before", f.Before, "from", f.Received, "until", f.Noticed}
	switch writes {
	case job.WritesLost:
		n.log.Error("database failover lost acknowledged writes", attrs...)
	case job.WritesUnknown:
		n.log.Error("database failover may have lost acknowledged writes", attrs...)
	default:
		n.log.Info("database failover noticed", attrs...)
	}
	n.engine.FailedOver(f)
}

// restored reports a restore of the database to an earlier time.
func (n *node) restored(r job.Restore) {
	n.log.Error("database restored to an earlier time, runs that are due in the forgotten time are held",
		"from", r.From, "until", r.Until, "accept", "belfry restore status")
}
