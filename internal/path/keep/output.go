package keep

import (
	"context"
	"fmt"
)

// dropStaleOutputs removes the live output of nodes that died and of runs that were cancelled. The table is small: it
// has no more rows than commands are running.
const dropStaleOutputs = `
DELETE FROM run_output_live o WHERE o.ctid = ANY (ARRAY(
    SELECT l.ctid FROM run_output_live l
    WHERE NOT EXISTS (
        SELECT FROM run r
        WHERE r.partition = l.partition AND r.job_id = l.job_id AND r.due_at = l.due_at AND r.seq = l.seq
          AND r.attempt = l.attempt AND r.state = 1 /* running */)
    LIMIT $1))`

// DropStaleOutputs removes the live output of up to limit attempts that are not running, and returns how many it
// removed.
func (s *Store) DropStaleOutputs(ctx context.Context, limit int) (int, error) {
	tag, err := s.db.Exec(ctx, dropStaleOutputs, limit)
	if err != nil {
		return 0, fmt.Errorf("drop the output of ended attempts: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
