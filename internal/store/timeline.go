package store

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Servers is what the pools of a process know together about the servers of a database. The zero value knows nothing.
type Servers struct {
	hosts     hosts
	timelines timelines
}

// timelines keeps pools on the newest primary. Each promotion of a standby begins a new timeline, so of two servers
// that accept writes, the one with the lower timeline is a primary of the past. It may be frozen or cut off, and may
// come back and know nothing of its successor.
type timelines struct {
	mu     sync.Mutex
	newest int64
	conns  map[*pgx.Conn]int64 // open connections, and the timeline of their server
}

// readTimeline returns the timeline that a server writes to.
const readTimeline = `SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint`

// timelineKey is where a connection keeps its timeline until the pool has it.
const timelineKey = "timeline"

// watch follows the connections of a pool.
func (t *timelines) watch(config *pgxpool.Config) {
	validate := config.ConnConfig.ValidateConnect
	config.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := validate(ctx, conn); err != nil {
			return err
		}
		return t.check(ctx, conn)
	}
	config.BeforeClose = func(conn *pgx.Conn) {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.conns, conn)
	}
}

// add remembers a connection of a pool until it is closed.
func (t *timelines) add(conn *pgx.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conns == nil {
		t.conns = map[*pgx.Conn]int64{}
	}
	t.conns[conn], _ = conn.PgConn().CustomData()[timelineKey].(int64)
}

// check refuses a primary of the past. If the server is newer than all others so far, it closes the connections to
// them: a statement that waits for a frozen server would wait until its own limit.
func (t *timelines) check(ctx context.Context, conn *pgconn.PgConn) error {
	rows := conn.ExecParams(ctx, readTimeline, nil, nil, nil, nil).Read()
	if rows.Err != nil || len(rows.Rows) != 1 {
		return ctx.Err() // not every service has these functions
	}
	timeline, err := strconv.ParseInt(string(rows.Rows[0][0]), 10, 64)
	if err != nil {
		return fmt.Errorf("read the timeline: %w", err)
	}
	conn.CustomData()[timelineKey] = timeline
	if newest := t.note(timeline); timeline < newest {
		return fmt.Errorf("the server is on timeline %d and was replaced by one on timeline %d; make it a standby, or "+
			"restart this node if the database was restored", timeline, newest)
	}
	return nil
}

// note returns the newest timeline.
func (t *timelines) note(timeline int64) (newest int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if timeline <= t.newest {
		return t.newest
	}
	t.newest = timeline
	for conn, was := range t.conns {
		if was < timeline {
			_ = conn.PgConn().Conn().Close()
		}
	}
	return timeline
}
