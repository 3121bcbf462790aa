package start

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

var claimContent = statement("content")

// leftOut is what belfry_attempt returns as the payload of a run whose payload and target have more
// than 2 KiB. It is not JSON, so it is no payload. While a claim sends its results it holds locks that others wait for:
// those of the session and, for workers, of the queue. Its results are therefore small.
const leftOut = `later`

// maxContents is how many runs one content.sql reads: at most 10 MiB.
const maxContents = 32

// ReadContents reads what claims left out. It runs after the transaction of the claim, without locks. If it fails, the
// outcome of the claim is unknown to the caller, who resolves it.
func (s *Store) ReadContents(ctx context.Context, enter store.Entrance, attempts []*job.Attempt) error {
	attempts = slices.DeleteFunc(attempts, func(a *job.Attempt) bool { return a.Payload != leftOut })
	for part := range slices.Chunk(attempts, maxContents) {
		if err := s.readPart(ctx, enter, part); err != nil {
			return fmt.Errorf("read %d payloads: %w", len(part), err)
		}
	}
	return nil
}

func (s *Store) readPart(ctx context.Context, enter store.Entrance, attempts []*job.Attempt) error {
	keys, versions := make([]job.Key, len(attempts)), make([]int32, len(attempts))
	for i, a := range attempts {
		keys[i], versions[i] = a.Key, a.Version
	}
	k := store.SplitKeys(keys)
	var batch pgx.Batch
	enter(&batch)
	batch.Queue(claimContent, k.Partition, k.Job, k.DueAt, k.Seq, versions).Query(func(rows pgx.Rows) error {
		var n int
		var config, payload, definition string
		var own bool // the run has a payload of its own
		_, err := pgx.ForEachRow(rows, []any{&n, &config, &payload, &own, &definition}, func() error {
			a := attempts[n]
			if definition != "" {
				var d job.Definition
				if err := json.Unmarshal([]byte(definition), &d); err != nil {
					return err
				}
				if config = string(d.Target.Config); !own {
					payload = string(d.Payload)
				}
			}
			a.Config, a.Payload = config, payload
			return nil
		})
		return err
	})
	return s.db.SendBatch(ctx, &batch).Close()
}

func pointersTo(attempts []job.Attempt) []*job.Attempt {
	out := make([]*job.Attempt, len(attempts))
	for i := range attempts {
		out[i] = &attempts[i]
	}
	return out
}
