package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrPooled says that a pooler stands between, so notifications cannot be received: LISTEN would stay with a server
// connection that other clients use.
var ErrPooled = errors.New("notifications cannot be received through a pooler")

// Listener receives the notifications of one channel on a connection of its own. One goroutine uses it.
type Listener struct {
	conn   *pgx.Conn
	closed func(*pgx.Conn)
}

// Listen opens a connection that receives the notifications of a channel. Without a pooler it costs the server nothing
// while there are none.
func (a All) Listen(ctx context.Context, channel string) (*Listener, error) {
	if a.Pooled() {
		return nil, ErrPooled
	}
	config := a.pool.conns.Config()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, err
	}
	l := &Listener{conn, config.BeforeClose}
	if config.AfterConnect != nil { // also closes the connection when a newer primary is found
		err = config.AfterConnect(ctx, conn)
	}
	if err == nil && a.Pooled() {
		err = ErrPooled
	}
	if err == nil {
		_, err = conn.Exec(ctx, `LISTEN `+pgx.Identifier{channel}.Sanitize())
	}
	if err != nil {
		l.Close(ctx)
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// Next waits for a notification and returns its text. After an error the listener must be closed.
func (l *Listener) Next(ctx context.Context) (string, error) {
	n, err := l.conn.WaitForNotification(ctx)
	if err != nil {
		return "", fmt.Errorf("wait for a notification: %w", err)
	}
	return n.Payload, nil
}

// Close closes the connection, even if ctx is done.
func (l *Listener) Close(ctx context.Context) {
	if l.closed != nil {
		l.closed(l.conn)
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	_ = l.conn.Close(limited)
}
