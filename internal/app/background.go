package app

import (
	"github.com/belfry-dev/belfry/internal/app/archiving"
	"github.com/belfry-dev/belfry/internal/loop"
)

// background returns the loops of a node that belong to no machine. They end with the node's context, and
// nothing waits for them.
func (n *node) background() loop.Group {
	operations := &operator{work: n.store.WorkOperation, idle: operationPolls}
	g := loop.Group{
		{Name: "sample", Title: "queue sampling", Once: n.sampleOnce},
		{Name: "stats", Title: "statistics", Once: n.statsOnce},
		{Name: "operations", Title: "operation worker", Once: operations.once},
		{Name: "audit_head", Title: "read of audit logs", Once: n.auditHeadOnce},
		{Name: "refusals", Title: "record of refused requests", Once: n.refusals.Once},
		{Name: "reseal", Title: "secret reseal", Once: n.resealOnce},
		{Name: "report_keys", Title: "read of the keys of run tokens", Once: n.reportKeys.Once},
	}
	if n.config.commands != nil {
		g = append(g, loop.Loop{Name: "outputs", Title: "command output", Once: n.outputOnce})
	}
	if a := n.config.Archive; a.URL != "" {
		e := archiving.NewExport(a, n.db.Archive(), n.member.Session, n.log)
		e.Audited = n.engine.NoteAudit
		g = append(g, loop.Loop{Name: "archive", Title: "archive", Once: e.Once},
			loop.Loop{Name: "archive_sample", Title: "count of days to archive", Once: n.archiveSampleOnce})
	}
	for i := range g {
		g[i].Log = n.log
		// Their rounds are rare, so a failure does not change the pace. But keys may have been replaced meanwhile.
		g[i].Backoff.Off = g[i].Name != "report_keys"
	}
	return append(g, n.wakes.loops()...)
}
