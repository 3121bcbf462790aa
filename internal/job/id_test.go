package job_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/job"
)

var anyUUID = rapid.Custom(func(t *rapid.T) uuid.UUID {
	return uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
})

var anyKey = rapid.Custom(func(t *rapid.T) job.Key {
	id := anyUUID.Draw(t, "job")
	return job.Key{
		Partition: job.PartitionOf(id), Job: id,
		DueAt: time.UnixMicro(rapid.Int64Range(-1<<55, 1<<55-1).Draw(t, "due")).UTC(),
		Seq:   rapid.Int16Min(0).Draw(t, "seq"),
	}
})

// TestPartitionNeverChanges: the numbers are stored with every job. The expected ones were computed by another program.
func TestPartitionNeverChanges(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int16{
		"00000000-0000-0000-0000-000000000000": 55,
		"01940b7e-6f7f-7000-8000-000000000001": 128,
		"01940b7e-6f7f-7000-8000-000000000002": 165,
		"ffffffff-ffff-ffff-ffff-ffffffffffff": 90,
	} {
		require.Equal(t, want, job.PartitionOf(uuid.MustParse(id)), id)
	}
}

// TestPartitionsFillEvenly uses ids of consecutive milliseconds, and ids that differ only in a counter.
func TestPartitionsFillEvenly(t *testing.T) {
	t.Parallel()
	const perPartition = 400
	for name, vary := range map[string]func(id *uuid.UUID, i int){
		"time":    func(id *uuid.UUID, i int) { id[3], id[4], id[5] = byte(i>>16), byte(i>>8), byte(i) },
		"counter": func(id *uuid.UUID, i int) { id[13], id[14], id[15] = byte(i>>16), byte(i>>8), byte(i) },
	} {
		var counts [job.Partitions]int
		id := uuid.MustParse("01940b7e-0000-7000-8000-000000000000")
		for i := range perPartition * job.Partitions {
			vary(&id, i)
			counts[job.PartitionOf(id)]++
		}
		chi := 0.0
		for _, n := range counts {
			chi += float64((n-perPartition)*(n-perPartition)) / perPartition
		}
		// 255 degrees of freedom: 99.99 % of fair spreads lie below 347.
		require.Less(t, chi, 347.0, name)
	}
}

func TestJobIDRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyUUID.Draw(t, "a"), anyUUID.Draw(t, "b")
		s := job.FormatJobID(a)
		require.Regexp(t, "^job_[0-9a-v]{26}$", s)
		back, err := job.ParseJobID(s)
		require.NoError(t, err)
		require.Equal(t, a, back)
		require.Equal(t, cmp.Compare(string(a[:]), string(b[:])), cmp.Compare(s, job.FormatJobID(b)))
	})
}

func TestRunIDRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := anyKey.Draw(t, "key")
		s := job.FormatRunID(k)
		require.Regexp(t, "^run_[0-9a-v]{40}$", s)
		back, err := job.ParseRunID(s)
		require.NoError(t, err)
		require.Equal(t, k, back)
	})
}

func TestRunIDsSortByJobThenDueTimeThenSequence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyKey.Draw(t, "a"), anyKey.Draw(t, "b")
		if rapid.Bool().Draw(t, "same job") {
			b.Job = a.Job
		}
		if rapid.Bool().Draw(t, "same due") {
			b.DueAt = a.DueAt
		}
		want := cmp.Or(cmp.Compare(string(a.Job[:]), string(b.Job[:])), a.DueAt.Compare(b.DueAt),
			cmp.Compare(a.Seq, b.Seq))
		require.Equal(t, want, cmp.Compare(job.FormatRunID(a), job.FormatRunID(b)))
	})
}

func TestIDsHaveOneSpelling(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("01940b7e-6f7f-7000-8000-000000000001")
	j, r := job.FormatJobID(id), job.FormatRunID(job.Key{Job: id, DueAt: time.Unix(1_800_000_000, 0)})
	require.Equal(t, "job_06a0mvjffto010000000000004", j)
	require.Equal(t, "run_06a0mvjffto01000000000000636a5p8j2000000", r)
	last := j[:len(j)-1]
	for _, s := range []string{
		"", "job_", "run_", j[4:], strings.ToUpper(j), j + "0", j[:len(j)-1], last + "5", last + "w", last + "\n",
		j + "\n", "job_" + strings.Repeat("\n", 26), " " + j, r,
	} {
		_, err := job.ParseJobID(s)
		require.ErrorIs(t, err, job.ErrBadID, "%q", s)
	}
	seq := r[:len(r)-4]
	for _, s := range []string{
		"", "run_", r[4:], strings.ToUpper(r), r + "0", r[:len(r)-1], seq + "1000", "run_" + strings.Repeat("v", 40),
		r[:len(r)-1] + "\n", j,
	} {
		_, err := job.ParseRunID(s)
		require.ErrorIs(t, err, job.ErrBadID, "%q", s)
	}
}

func FuzzParseJobID(f *testing.F) {
	f.Add("job_06a0mvjffto010000000000004")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := job.ParseJobID(s)
		if err == nil && job.FormatJobID(id) != s {
			t.Fatalf("%q is read as %s, which is written %q", s, id, job.FormatJobID(id))
		}
	})
}

func FuzzParseRunID(f *testing.F) {
	f.Add(job.FormatRunID(job.Key{DueAt: time.Unix(1_800_000_000, 0), Seq: 3}))
	f.Fuzz(func(t *testing.T, s string) {
		k, err := job.ParseRunID(s)
		if err == nil && (job.FormatRunID(k) != s || k.Seq < 0 || k.Partition != job.PartitionOf(k.Job)) {
			t.Fatalf("%q is read as %v, which is written %q", s, k, job.FormatRunID(k))
		}
	})
}
