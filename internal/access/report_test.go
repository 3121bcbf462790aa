package access_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

func TestReportToken(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, 32)
	id := uuid.MustParse("01920000-0000-7000-8000-0123456789ab")
	a := job.Attempt{
		Key: job.Key{
			Partition: job.PartitionOf(id), Job: id, DueAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Seq: 3,
		},
		Namespace: uuid.New(), Session: uuid.New(), Number: 300, RunAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
	}
	r := access.ReportOf(a)
	require.Equal(t, time.Date(2026, 2, 1, 3, 4, 5, 0, time.UTC), r.Until)
	token := r.Token(key)
	got, err := access.ParseReport(key, token)
	require.NoError(t, err)
	require.Equal(t, r, got)
	_, err = access.ParseReport(bytes.Repeat([]byte{8}, 32), token)
	require.ErrorIs(t, err, access.ErrBadReport)
	_, err = access.ParseReport(nil, r.Token(nil))
	require.ErrorIs(t, err, access.ErrBadReport, "without a key nothing is good")
	for _, bad := range []string{
		"", "bfr_", token[1:], token + "0", strings.ToUpper(token), token[:len(token)-2] + "\n0", "bfk_" + token[4:],
	} {
		_, err := access.ParseReport(key, bad)
		require.ErrorIs(t, err, access.ErrBadReport, bad)
	}
	// No character of it can be another.
	for i := len("bfr_"); i < len(token); i++ {
		for _, c := range []byte("0v") {
			if token[i] == c {
				continue
			}
			_, err := access.ParseReport(key, token[:i]+string(c)+token[i+1:])
			require.ErrorIs(t, err, access.ErrBadReport)
		}
	}
}
