package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/store"
)

const (
	// auditScan is how many entries one page of a filtered list reads at most. Filters by actor and action have no index,
	// because each change would pay for it.
	auditScan = 20_000
	// auditStep is how far the times of entries may be out of order. Changes fail while the clock is further in doubt.
	auditStep = time.Minute
)

// Audit lists entries of the audit log, newest first. It reads no more than auditScan entries: the page may then be
// short.
func (a *API) Audit(ctx context.Context, o access.AuditParams) (out access.AuditPage, err error) {
	err = a.db.Tx(ctx, store.In(o.Namespace, store.KeyLookups), "list the audit log", func(tx pgx.Tx) error {
		f := auditFilter{AuditParams: o, floor: 1, end: endOfTime}
		if f.Before == 0 {
			f.Before = 1 << 62
		}
		if err := f.boundTime(ctx, tx); err != nil {
			return err
		}
		out, err = f.read(ctx, tx)
		return err
	})
	return out, err
}

var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// auditFilter is what a list asks for, in the terms of the table.
type auditFilter struct {
	access.AuditParams
	floor int64 // the lowest sequence number that can match
	end   time.Time
}

// boundTime turns the range of time into one of sequence numbers.
func (f *auditFilter) boundTime(ctx context.Context, tx pgx.Tx) (err error) {
	if !f.From.IsZero() {
		if f.floor, err = auditSeqAt(ctx, tx, f.Namespace, f.From.Add(-auditStep)); err != nil {
			return err
		}
	}
	if !f.To.IsZero() {
		end, err := auditSeqAt(ctx, tx, f.Namespace, f.To.Add(auditStep))
		if err != nil {
			return err
		}
		f.Before, f.end = min(f.Before, end), f.To
	}
	return nil
}

// auditSeq finds the first entry that is not before a time, by bisection: sequence numbers have no gaps, and entries are
// written in the order of time.
const auditSeq = `
WITH RECURSIVE b AS (
    SELECT 1::bigint AS low,
           coalesce((SELECT seq FROM audit_log WHERE namespace_id = $1 ORDER BY seq DESC LIMIT 1), 0) + 1 AS high
    UNION ALL
    SELECT CASE WHEN e.at < $2 THEN m.seq + 1 ELSE b.low END, CASE WHEN e.at < $2 THEN b.high ELSE m.seq END
    FROM b, LATERAL (SELECT (b.low + b.high) / 2 AS seq) m,
         LATERAL (SELECT at FROM audit_log WHERE namespace_id = $1 AND seq >= m.seq ORDER BY seq LIMIT 1) e
    WHERE b.low < b.high
)
SELECT max(low) FROM b`

func auditSeqAt(ctx context.Context, tx pgx.Tx, namespace uuid.UUID, at time.Time) (seq int64, err error) {
	if err := tx.QueryRow(ctx, auditSeq, namespace, at).Scan(&seq); err != nil {
		return 0, fmt.Errorf("find the time in the audit log: %w", err)
	}
	return seq, nil
}

// auditMatches reads up to $4 entries of a scan, and returns those that match all filters. An actor is as entries have
// it, or the name or the id of a key or a person: see access.Principal.Actor.
const auditMatches = `), page AS (
    SELECT seq FROM scanned
    WHERE ($5 = '' OR actor = $5 OR starts_with(actor, $5 || ' [') OR starts_with(actor, 'key:' || $5 || ' [')
           OR starts_with(actor, 'user:' || $5 || ' [') OR right(actor, length($5) + 3) = ' [' || $5 || ']')
      AND ($6 = '' OR action = $6 OR starts_with(action, $6 || '.'))
      AND ($7 = '' OR object = $7 OR position($11 IN detail) > 0)
      AND at >= $8 AND at < $9
    ORDER BY seq DESC LIMIT $10
)
SELECT st.read, st.last, l.seq, l.at, l.actor, l.action, l.object, l.detail, l.hash, coalesce(l.address, ''),
       coalesce(l.request_id, '')
FROM (SELECT count(*) AS read, coalesce(min(seq), 0) AS last FROM scanned) st
LEFT JOIN page ON true
LEFT JOIN LATERAL (SELECT * FROM audit_log a WHERE a.namespace_id = $1 AND a.seq = page.seq) l ON true
ORDER BY l.seq DESC`

const auditScanned = `
WITH scanned AS MATERIALIZED (
    SELECT seq, at, actor, action, object, detail FROM audit_log
    WHERE namespace_id = $1 AND seq < $2 AND seq >= $3 `

const (
	auditOfObject = auditScanned + `AND object = $7 ORDER BY seq DESC LIMIT $4` + auditMatches
	auditOfAll    = auditScanned + `ORDER BY seq DESC LIMIT $4` + auditMatches
)

// isID matches the ids that entries have as their object. All other objects are named by their name.
var isID = regexp.MustCompile(`^[a-z]+_[0-9a-v]{26,}$`)

func (f *auditFilter) read(ctx context.Context, tx pgx.Tx) (out access.AuditPage, err error) {
	sql, scan := auditOfAll, auditScan
	name, err := json.Marshal(map[string]string{"name": f.Object})
	if err != nil {
		return out, err
	}
	switch {
	case isID.MatchString(f.Object):
		sql = auditOfObject
	case f.Object != "": // of a job, entries have the name in their details
	case f.Actor == "" && f.Action == "" && f.From.IsZero() && f.To.IsZero():
		scan = f.Limit + 1 // every entry matches
	}
	rows, err := tx.Query(
		ctx, sql, f.Namespace, f.Before, f.floor, scan, f.Actor, f.Action, f.Object, f.From, f.end, f.Limit+1,
		string(name[1:len(name)-1]),
	)
	if err != nil {
		return out, err
	}
	var read, last int64
	var seq *int64
	var at *time.Time
	var actor, action, object, detail *string
	var hash []byte
	var from access.Origin
	_, err = pgx.ForEachRow(rows, []any{
		&read, &last, &seq, &at, &actor, &action, &object, &detail, &hash, &from.Address, &from.Request,
	}, func() error {
		if seq == nil { // no entry of those that were read matches
			return nil
		}
		e := access.AuditEntry{
			Seq: *seq, At: at.UTC(), Actor: *actor, Action: *action, Object: *object, Detail: *detail, Origin: from,
		}
		copy(e.Hash[:], hash)
		out.Entries = append(out.Entries, e)
		return nil
	})
	switch {
	case err != nil:
		return out, err
	case len(out.Entries) > f.Limit:
		out.Entries = out.Entries[:f.Limit]
		out.Next = out.Entries[f.Limit-1].Seq
	case read == int64(scan) && last > f.floor:
		out.Next = last
	}
	return out, nil
}
