package jobs

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

// TestMarksAreReadAsTheyWereWritten: a token of one order is rejected in the other.
func TestMarksAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	id := uuid.Must(uuid.NewV7())
	for _, tc := range []struct {
		byDue bool
		mark  job.ListMark
	}{
		{false, job.ListMark{ID: id}},
		{false, job.ListMark{ID: id, Scan: true}},
		{true, job.ListMark{ID: id, Due: time.UnixMicro(1_800_000_000_123_456).UTC(), Partition: 255, Cursor: 1 << 40}},
	} {
		token := formatMark(tc.mark, tc.byDue)
		got, err := parseMark(token, tc.byDue)
		require.NoError(t, err)
		require.Equal(t, tc.mark, got)
		_, err = parseMark(token, !tc.byDue)
		require.NotEmpty(t, problem.All(err))
	}
}
