package postgres

import (
	"context"
	"fmt"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// wakeChannel is the channel of the notifications. Channels belong to a database, so shards do not share it.
const wakeChannel = "belfry_wake"

// ErrPooled says that notifications cannot be received, because a pooler stands between.
var ErrPooled = store.ErrPooled

// notify is a transaction of its own. Transactions that notify commit one at a time in the whole server, so that of a
// trigger does not, and this one does not wait for the disk or a standby.
const notify = `SELECT ` + string(store.LazyCommit) + `, pg_notify($1, $2)`

// Wakes sends and receives wake-ups.
type Wakes struct{ db store.All }

// Wakes returns a Wakes.
func (d *DB) Wakes() *Wakes { return &Wakes{d.pool.All()} }

// Send sends a wake-up to all nodes that listen, this one too.
func (n *Wakes) Send(ctx context.Context, w job.Wake) error {
	if _, err := n.db.Exec(ctx, notify, wakeChannel, w.Text()); err != nil {
		return fmt.Errorf("send a wake-up: %w", err)
	}
	return nil
}

// WakeListener receives wake-ups. One goroutine uses it.
type WakeListener struct{ *store.Listener }

// Listen opens a connection that receives wake-ups.
func (n *Wakes) Listen(ctx context.Context) (*WakeListener, error) {
	l, err := n.db.Listen(ctx, wakeChannel)
	if err != nil {
		return nil, err
	}
	return &WakeListener{l}, nil
}

// Next waits for a wake-up. One that cannot be read, perhaps of a newer version, names nothing. After an error the
// listener must be closed.
func (l *WakeListener) Next(ctx context.Context) (job.Wake, error) {
	text, err := l.Listener.Next(ctx)
	if err != nil {
		return job.Wake{}, err
	}
	w, _ := job.ParseWake(text)
	return w, nil
}
