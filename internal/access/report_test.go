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
	other := bytes.Repeat([]byte{8}, 32)
	got, err = access.ReportKeys{other, key}.Parse(token)
	require.NoError(t, err)
	require.Equal(t, r, got)
	require.Equal(t, token, access.ReportKeys{key, other}.Token(r), "the first one signs")
	_, err = access.ReportKeys{other}.Parse(token)
	require.ErrorIs(t, err, access.ErrBadReport)
	_, err = access.ReportKeys(nil).Parse(token)
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

// TestTimedReportKeys: the newest key that is in use signs, and keys that have ended are not accepted.
func TestTimedReportKeys(t *testing.T) {
	t.Parallel()
	newest, middle, oldest := []byte("newest"), []byte("middle"), []byte("oldest")
	const never = time.Hour
	keys := access.TimedReportKeys{
		{Name: "newest", Secret: newest, UseIn: 2 * time.Minute, EndsIn: never},
		{Name: "closed", UseIn: time.Minute, EndsIn: never},
		{Name: "middle", Secret: middle, UseIn: time.Minute, EndsIn: 4 * time.Minute},
		{Name: "oldest", Secret: oldest, UseIn: -time.Minute, EndsIn: 3 * time.Minute},
	}
	for minutes, want := range []access.ReportKeys{
		{oldest, middle, newest}, {middle, newest, oldest}, {newest, middle, oldest}, {newest, middle}, {newest},
	} {
		require.Equal(t, want, keys.After(time.Duration(minutes)*time.Minute), minutes)
	}
	require.Equal(t, middle, keys[:3].After(0).First(), "none is in use: the next one")
	require.Empty(t, keys.After(never))
	// The error of a lost keyset and the guide name the time after which no node needs the old keys.
	require.Equal(t, 7*time.Minute, access.ReportKeyLead+access.ReportKeyGrace)
}
