// Package reportkey has the keys of the cluster for run tokens: as a node reads them, and as a command rotates them.
package reportkey

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app/database"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/telemetry"
)

// Ring is the keys that a node has, an access.ReportKeyRing. It is safe for concurrent use.
type Ring struct {
	store *postgres.Admin
	log   *slog.Logger
	last  atomic.Pointer[reading]
	signs []byte // as the log knows it
	drops telemetry.Trouble
	// own is used when all keys have ended and none could be read. What it signs or encrypts is of use on this node only.
	own access.ReportKeys
}

// reading is the keys of the last read that had some.
type reading struct {
	keys    access.TimedReportKeys
	elapsed time.Duration // when they were read
	at      time.Time     // the same by the wall clock, which also counts the time that a machine is suspended
	failed  bool          // the last read has failed
}

// Read returns a Ring with the keys of the database. It fails if this node cannot decrypt one of them.
func Read(ctx context.Context, store *postgres.Admin, log *slog.Logger) (*Ring, error) {
	own := make([]byte, access.ReportKeySize)
	_, _ = rand.Read(own) // it never fails
	r := &Ring{store: store, log: log, own: access.ReportKeys{own}}
	r.last.Store(&reading{})
	err := r.read(ctx)
	r.signs = r.Keys().First()
	return r, err
}

// Keys returns the keys as they are now, by the last read. Their times count also while no read succeeds.
func (r *Ring) Keys() access.ReportKeys {
	last := r.last.Load()
	if keys := last.keys.After(clock.Elapsed() - last.elapsed); len(keys) > 0 {
		return keys
	}
	return r.own
}

// Stale returns whether the last read has failed or is too long ago.
func (r *Ring) Stale() bool { return r.last.Load().stale(clock.Now()) }

func (l *reading) stale(now time.Time) bool {
	return l.failed || now.Round(0).Sub(l.at).Abs() > 2*access.ReportKeyPause
}

// Once is a round of the loop that reads the keys again. If it fails, the node keeps those that it has.
func (r *Ring) Once(ctx context.Context) (time.Duration, error) {
	if err := r.read(ctx); err != nil {
		return access.ReportKeyPause, err
	}
	if now := r.Keys().First(); !bytes.Equal(r.signs, now) {
		r.signs = now
		r.log.Info("new key signs run tokens")
	}
	dropped, err := r.store.DropReportKeys(ctx)
	if dropped > 0 {
		r.log.Info("old keys of run tokens deleted", "keys", dropped)
	}
	switch {
	case err == nil:
		r.drops.Worked(r.log, "deletion of old keys of run tokens recovered")
	case ctx.Err() == nil: // the node does not stop
		r.drops.Failed(r.log, "deletion of old keys of run tokens failed", err)
	}
	return access.ReportKeyPause, nil
}

// read takes the keys of the database. A key that no longer opens stays if this node has opened it before.
func (r *Ring) read(ctx context.Context) error {
	next := &reading{elapsed: clock.Elapsed(), at: clock.Now().Round(0)}
	old := r.last.Load()
	var err error
	next.keys, err = r.store.ReportKeys(ctx)
	for i, k := range next.keys {
		known := slices.IndexFunc(old.keys, func(o access.TimedReportKey) bool { return o.Name == k.Name })
		if k.Secret == nil && known >= 0 {
			next.keys[i].Secret = old.keys[known].Secret
		}
	}
	if len(next.keys) == 0 {
		*next = *old
	}
	next.failed = err != nil
	r.last.Store(next)
	return err
}

// Rotate adds a key, and ends the others after keep. It fails while a live node could not use the new key.
func Rotate(ctx context.Context, at database.At, keep time.Duration) (access.ReportKey, error) {
	keys, err := database.ReadKeyset(at.Keyset)
	if err != nil {
		return access.ReportKey{}, err
	}
	mine := ""
	if keys != nil {
		mine = keys.Fingerprint()
	}
	return database.From(ctx, at, func(db *postgres.DB) (k access.ReportKey, err error) {
		nodes, err := db.Admin().Nodes(ctx)
		if err != nil {
			return k, err
		}
		for _, n := range nodes {
			switch {
			case n.Keyset == mine:
			case mine == "":
				return k, fmt.Errorf("the node %s has a keyset and this command has none: "+
					"set secrets.keyset_file as on the nodes", n.Name)
			default:
				return k, fmt.Errorf("the node %s has no keyset, or not the one of this command: "+
					"set the same secrets.keyset_file for this command and all nodes", n.Name)
			}
		}
		return db.Admin().RotateReportKey(ctx, keep)
	})
}

// List returns what may be shown about the keys, the newest first.
func List(ctx context.Context, at database.At) ([]access.ReportKey, error) {
	return database.From(ctx, at, func(db *postgres.DB) ([]access.ReportKey, error) {
		return db.Admin().ReportKeyList(ctx)
	})
}
