package app

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-dev/belfry/internal/access"
)

const (
	auditHeadPause = time.Hour
	// maxAuditHeads is how many namespaces have metrics of their audit log. The log has all of them.
	maxAuditHeads = 200
)

var (
	auditLogEntries = prometheus.NewDesc("belfry_audit_log_entries",
		"Entries of the audit log of a namespace, at most an hour old.", []string{"namespace"}, nil)
	auditLogHash = prometheus.NewDesc("belfry_audit_log_hash",
		"First 52 bits of the hash of the last of these entries, as a number.", []string{"namespace"}, nil)
)

// auditHeads is the metrics of audit logs: where they ended when a node last looked. Who changes the database afterwards
// cannot change them where they were collected.
type auditHeads struct {
	last atomic.Pointer[[]access.AuditHead]
}

// Describe lists the metrics.
func (h *auditHeads) Describe(to chan<- *prometheus.Desc) {
	to <- auditLogEntries
	to <- auditLogHash
}

// Collect sends what the node last saw.
func (h *auditHeads) Collect(to chan<- prometheus.Metric) {
	heads := h.last.Load()
	if heads == nil {
		return
	}
	for _, a := range (*heads)[:min(len(*heads), maxAuditHeads)] {
		hash := binary.BigEndian.Uint64(a.Hash[:]) >> 12
		to <- prometheus.MustNewConstMetric(auditLogEntries, prometheus.GaugeValue, float64(a.Seq), a.Namespace)
		to <- prometheus.MustNewConstMetric(auditLogHash, prometheus.GaugeValue, float64(hash), a.Namespace)
	}
}

// auditHeadOnce logs where each audit log ends, if that has changed since the node last logged it.
func (n *node) auditHeadOnce(ctx context.Context) (time.Duration, error) {
	heads, err := n.db.Admin().AuditHeads(ctx)
	if err != nil {
		return samplePause, err
	}
	logged := map[string]access.AuditMark{}
	if last := n.metrics.auditHeads.last.Swap(&heads); last != nil {
		for _, h := range *last {
			logged[h.Namespace] = h.AuditMark
		}
	}
	for _, h := range heads {
		if logged[h.Namespace] != h.AuditMark {
			n.log.InfoContext(ctx, "audit log", "namespace", h.Namespace, "mark", h.String())
		}
	}
	return auditHeadPause, nil
}
