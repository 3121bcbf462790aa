package archive_test

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/job"
)

// The times that PostgreSQL can store, in microseconds since 1970. NewRun refuses the last 30 years of them, from the
// year 294247 on: they do not fit.
var (
	first = time.Date(-4712, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	last  = int64(math.MaxInt64)
)

func micros() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(first, last), rapid.SampledFrom([]int64{first, -1, 0, 1, last}))
}

func texts() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", " ", "NULL", "\n", "💥", "a|b"}))
}

func optional[T any](t *rapid.T, g *rapid.Generator[T], label string) *T {
	if rapid.Bool().Draw(t, label+"?") {
		return nil
	}
	v := g.Draw(t, label)
	return &v
}

// ids draws few different ids, so that rows have jobs in common.
func ids() *rapid.Generator[uuid.UUID] {
	return rapid.Custom(func(t *rapid.T) uuid.UUID {
		var id uuid.UUID
		copy(id[:], rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7f, 0x80, 0xff}), 1, 1).Draw(t, "id"))
		return id
	})
}

func shorts() *rapid.Generator[int32] { return rapid.Int32Range(math.MinInt16, math.MaxInt16) }

func runs() *rapid.Generator[archive.Run] {
	return rapid.Custom(func(t *rapid.T) archive.Run {
		r := archive.Run{
			Job: ids().Draw(t, "job"), DueAt: micros().Draw(t, "due"), Seq: shorts().Draw(t, "seq"),
			EndedAt: micros().Draw(t, "ended"), RunAt: micros().Draw(t, "run"),
			StartedAt: optional(t, micros(), "started"), DueTo: optional(t, micros(), "to"),
			Count: rapid.Int64().Draw(t, "count"), Partition: shorts().Draw(t, "partition"),
			Version: rapid.Int32().Draw(t, "version"), Attempt: shorts().Draw(t, "attempt"),
			Code: rapid.Int32().Draw(t, "code"), Status: texts().Draw(t, "status"), Origin: texts().Draw(t, "origin"),
			JobName: texts().Draw(t, "name"), Queue: texts().Draw(t, "queue"), Labels: texts().Draw(t, "labels"),
			Session: ids().Draw(t, "session"), Reason: texts().Draw(t, "reason"), Message: texts().Draw(t, "message"),
			Result: texts().Draw(t, "result"), IdempotencyKey: texts().Draw(t, "key"), Trace: texts().Draw(t, "trace"),
		}
		if rapid.Bool().Draw(t, "common key") { // rows that only their content can order
			r.Job, r.DueAt, r.Seq, r.EndedAt = uuid.UUID{1}, 1, 1, 1
		}
		for range rapid.IntRange(0, 3).Draw(t, "attempts") {
			r.Attempts = append(r.Attempts, archive.Attempt{
				Number: shorts().Draw(t, "number"), StartedAt: optional(t, micros(), "started"),
				EndedAt: optional(t, micros(), "ended"), Outcome: texts().Draw(t, "outcome"),
				Code: rapid.Int32().Draw(t, "code"), Message: texts().Draw(t, "message"),
				Session: ids().Draw(t, "session"), Node: texts().Draw(t, "node"), Worker: rapid.Bool().Draw(t, "worker"),
			})
		}
		return r
	})
}

func skips() *rapid.Generator[archive.Skip] {
	return rapid.Custom(func(t *rapid.T) archive.Skip {
		return archive.Skip{
			Partition: shorts().Draw(t, "partition"), Cursor: rapid.Int64().Draw(t, "cursor"),
			From: micros().Draw(t, "from"), To: micros().Draw(t, "to"), Count: rapid.Int64().Draw(t, "count"),
			Reason: texts().Draw(t, "reason"), CreatedAt: micros().Draw(t, "created"),
			Schedule: texts().Draw(t, "schedule"), Missed: texts().Draw(t, "missed"),
		}
	})
}

var place = archive.Place{
	Day: archive.DayOf(time.Date(2026, 11, 15, 23, 0, 0, 0, time.UTC)), Generation: 1, Number: 1,
	Namespace: uuid.MustParse("0197f3a1-0000-7000-8000-000000000001"),
}

// write writes rows, sorted, as one part.
func write[T any, R archive.Row[T]](
	t require.TestingT, open func(*bytes.Buffer) *archive.Writer[T, R], rows []T,
) ([]byte, archive.File) {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b T) int { return R(&a).Compare(&b) })
	var out bytes.Buffer
	w := open(&out)
	for i := range rows {
		require.NoError(t, w.Write(R(&rows[i])))
	}
	f, err := w.Close()
	require.NoError(t, err)
	return out.Bytes(), f
}

func writeRuns(t require.TestingT, p archive.Place, rows ...archive.Run) ([]byte, archive.File) {
	return write(t, func(b *bytes.Buffer) *archive.Writer[archive.Run, *archive.Run] {
		return archive.NewRunWriter(b, p)
	}, rows)
}

func writeSkips(t require.TestingT, p archive.Place, rows ...archive.Skip) ([]byte, archive.File) {
	return write(t, func(b *bytes.Buffer) *archive.Writer[archive.Skip, *archive.Skip] {
		return archive.NewSkipWriter(b, p)
	}, rows)
}

// samples returns sets of rows. A part costs much more than its rows, so these are few and large: rapid.Check would write
// hundreds of small ones.
func samples[T any](row *rapid.Generator[T]) (out [][]T) {
	for seed := range 10 {
		out = append(out, rapid.SliceOfN(row, 1+10*seed, 20+10*seed).Example(seed))
	}
	return append(out, []T{row.Example(10)})
}

// TestRowsSurvive: what is read back is what was written, in every column, and in the order of the format.
func TestRowsSurvive(t *testing.T) {
	t.Parallel()
	for _, rows := range samples(runs()) {
		content, f := writeRuns(t, place, rows...)
		got, err := parquet.Read[archive.Run](bytes.NewReader(content), int64(len(content)))
		require.NoError(t, err)
		slices.SortFunc(rows, func(a, b archive.Run) int { return a.Compare(&b) })
		for i := range got {
			if len(got[i].Attempts) == 0 {
				got[i].Attempts = nil
			}
		}
		require.Equal(t, rows, got)
		require.Equal(t, archive.SumOf[archive.Run](rows...), f.Sum)
		require.Equal(t, rows[0].Key(), f.First)
		require.Equal(t, rows[len(rows)-1].Key(), f.Last)
	}
}

func TestSkipsSurvive(t *testing.T) {
	t.Parallel()
	for _, rows := range samples(skips()) {
		content, f := writeSkips(t, place, rows...)
		got, err := parquet.Read[archive.Skip](bytes.NewReader(content), int64(len(content)))
		require.NoError(t, err)
		slices.SortFunc(rows, func(a, b archive.Skip) int { return a.Compare(&b) })
		require.Equal(t, rows, got)
		require.Equal(t, archive.SumOf[archive.Skip](rows...), f.Sum)
	}
}

// TestSameRowsSameBytes: a retry, which reads the rows in another order, writes the same object and the same sum.
func TestSameRowsSameBytes(t *testing.T) {
	t.Parallel()
	for seed, rows := range samples(runs()) {
		content, f := writeRuns(t, place, rows...)
		again, g := writeRuns(t, place, rapid.Permutation(rows).Example(seed)...)
		require.True(t, bytes.Equal(content, again))
		require.Equal(t, f, g)
		// In parts, their sums are that of the whole.
		at := len(rows) / 2
		sum := archive.SumOf[archive.Run](rows[at:]...)
		sum.Merge(archive.SumOf[archive.Run](rows[:at]...))
		require.Equal(t, f.Sum, sum)
	}
}

// TestEachColumnCounts: a change of any column changes the hash of the content. Reflection finds a column that content
// forgets.
func TestEachColumnCounts(t *testing.T) {
	t.Parallel()
	each(t, archive.Run{Attempts: []archive.Attempt{{}}}, func(r *archive.Run) []byte { return r.Append(nil) })
	each(t, archive.Skip{}, func(s *archive.Skip) []byte { return s.Append(nil) })
}

func each[T any](t *testing.T, zero T, content func(*T) []byte) {
	unchanged := content(&zero)
	var walk func(name string, v reflect.Value)
	walk = func(name string, v reflect.Value) {
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		switch {
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				walk(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
			return
		case v.Kind() == reflect.Slice:
			walk(name+"[0]", v.Index(0))
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		case v.Kind() == reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem())) // 1970 is not the same as none
		case v.Kind() == reflect.Array:
			v.Index(0).SetUint(1)
		case v.CanInt():
			v.SetInt(1)
		case v.Kind() == reflect.String:
			v.SetString("x")
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		}
		require.NotEqual(t, unchanged, content(&zero), name)
		v.Set(before)
	}
	walk("row", reflect.ValueOf(&zero).Elem())
	require.Equal(t, unchanged, content(&zero))
}

// TestDifferentRowsDifferentContent: no text can move from one column to the next.
func TestDifferentRowsDifferentContent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := runs().Draw(t, "a"), runs().Draw(t, "b")
		require.Equal(t, reflect.DeepEqual(a, b), bytes.Equal(a.Append(nil), b.Append(nil)))
		require.Equal(t, reflect.DeepEqual(a, b), a.Compare(&b) == 0)
		require.Equal(t, a.Compare(&b), -b.Compare(&a))
		var again archive.Run
		encoded := a.Append(nil)
		require.NoError(t, again.Parse(encoded))
		require.Equal(t, a, again)
		require.Error(t, again.Parse(encoded[:rapid.IntRange(0, len(encoded)-1).Draw(t, "cut")]))
		require.Error(t, again.Parse(append(encoded, 0)))
		s := skips().Draw(t, "skip")
		var same archive.Skip
		require.NoError(t, same.Parse(s.Append(nil)))
		require.Equal(t, s, same)
	})
}

// TestUnsortedRowsAreRefused, and so are parts without rows.
func TestUnsortedRowsAreRefused(t *testing.T) {
	t.Parallel()
	w := archive.NewRunWriter(&bytes.Buffer{}, place)
	require.NoError(t, w.Write(&archive.Run{DueAt: 2}))
	require.ErrorContains(t, w.Write(&archive.Run{DueAt: 1}), "is before")
	_, err := archive.NewRunWriter(&bytes.Buffer{}, place).Close()
	require.ErrorContains(t, err, "no rows")
}

// TestAPartIsFull by its bytes before compression.
func TestAPartIsFull(t *testing.T) {
	t.Parallel()
	w := archive.NewRunWriter(&bytes.Buffer{}, place)
	w.SetBytes(archive.MaxBytes)
	require.False(t, w.Full(&archive.Run{}), "a part has at least one row")
	w.SetBytes(0)
	big := archive.Run{Message: string(make([]byte, 1<<20))}
	require.NoError(t, w.Write(&big))
	w.SetBytes(archive.MaxBytes - 1<<20)
	require.True(t, w.Full(&big), "with its other columns, the row is larger than what is left")
	require.False(t, w.Full(&archive.Run{}), "a small row still fits")
}

// TestEntriesSurvive: an entry that is archived is the same again, so a run found in the archive looks as it did.
func TestEntriesSurvive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		when := func(label string) time.Time { return time.UnixMicro(micros().Draw(t, label)).UTC() }
		maybe := func(label string) time.Time {
			if rapid.Bool().Draw(t, label+"?") {
				return time.Time{}
			}
			return when(label)
		}
		e := job.Entry{
			Key: job.Key{
				Partition: int16(rapid.IntRange(0, 255).Draw(t, "p")), Job: ids().Draw(t, "job"), DueAt: when("due"),
				Seq: rapid.Int16().Draw(t, "seq"),
			},
			Status: rapid.SampledFrom([]job.RunStatus{
				job.StatusSucceeded, job.StatusFailed, job.StatusCancelled, job.StatusSkipped,
			}).Draw(t, "status"),
			Version: rapid.Int32().Draw(t, "version"), RunAt: when("run"), StartedAt: maybe("started"),
			EndedAt: when("ended"), Attempt: rapid.Int16().Draw(t, "attempt"),
			Origin: job.Origin(rapid.Int16Range(0, 4).Draw(t, "origin")), Code: int(rapid.Int16().Draw(t, "code")),
			Session: ids().Draw(t, "session"), DueTo: maybe("to"), Count: rapid.Int64().Draw(t, "count"),
			Reason: job.Reason(texts().Draw(t, "reason")), Message: texts().Draw(t, "message"),
			OwnKey: texts().Draw(t, "key"), Result: texts().Draw(t, "result"), JobName: texts().Draw(t, "name"),
			Queue: texts().Draw(t, "queue"), Trace: texts().Draw(t, "trace"),
		}
		for range rapid.IntRange(0, 2).Draw(t, "attempts") {
			e.Attempts = append(e.Attempts, job.AttemptEnd{
				Number: rapid.Int16Range(0, math.MaxInt16).Draw(t, "number"), StartedAt: maybe("started"),
				EndedAt: maybe("ended"), Outcome: job.OutcomeKind(rapid.Int16Range(1, 9).Draw(t, "outcome")),
				Code: int(rapid.Int16().Draw(t, "code")), Message: texts().Draw(t, "message"),
				Session: ids().Draw(t, "session"), Node: texts().Draw(t, "node"), Worker: rapid.Bool().Draw(t, "worker"),
			})
		}
		r, err := archive.NewRun(e, map[string]string{"b": "2", "a": "1"})
		require.NoError(t, err)
		require.JSONEq(t, `{"a":"1","b":"2"}`, r.Labels)
		got, err := r.Entry()
		require.NoError(t, err)
		require.Equal(t, e, got)
	})
}

// TestEachFieldOfAnEntryIsArchived, except for those of live runs, and those that the ledger looks up elsewhere. A new
// field fails until it is archived, or listed here.
func TestEachFieldOfAnEntryIsArchived(t *testing.T) {
	t.Parallel()
	not := []string{"ExpiresAt", "Handler", "Percent", "Progress", "DeadLetter", "Node", "Worker"}
	now := time.Date(2026, 11, 15, 1, 2, 3, 0, time.UTC)
	full := job.Entry{
		Key: job.Key{Partition: 1, Job: id(1), DueAt: now, Seq: 1}, Status: job.StatusFailed, Version: 1, RunAt: now,
		StartedAt: now, EndedAt: now, Attempt: 1, Origin: job.FromTrigger, Code: 1, Session: id(2), DueTo: now, Count: 1,
		Reason: "x", Message: "x", OwnKey: "x", Trace: "x", Result: "x", JobName: "x", Queue: "x",
		Attempts: []job.AttemptEnd{{
			Number: 1, StartedAt: now, EndedAt: now, Outcome: job.Lost, Code: 1, Message: "x", Session: id(3), Node: "x",
			Worker: true,
		}},
	}
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		require.Equal(t, slices.Contains(not, name), v.Field(i).IsZero(), "%s is neither archived nor left out", name)
	}
	v = reflect.ValueOf(full.Attempts[0])
	for i := range v.NumField() {
		require.False(t, v.Field(i).IsZero(), v.Type().Field(i).Name)
	}
	r, err := archive.NewRun(full, nil)
	require.NoError(t, err)
	got, err := r.Entry()
	require.NoError(t, err)
	require.Equal(t, full, got)
}

// TestEachOutcomeIsArchived, with a name of its own. An outcome or an origin of a later version is archived as its number:
// one row must not keep its day out of the archive.
func TestEachOutcomeIsArchived(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for kind := job.Succeeded; kind <= job.Snoozed; kind++ {
		r, err := archive.NewRun(endedAs(kind, job.FromSchedule), nil)
		require.NoError(t, err)
		name := r.Attempts[0].Outcome
		require.Regexp(t, `^[a-z]+$`, name, "kind %d has no name", kind)
		require.False(t, names[name], name)
		names[name] = true
		got, err := r.Entry()
		require.NoError(t, err)
		require.Equal(t, kind, got.Attempts[0].Outcome)
	}
	want := endedAs(job.Snoozed+1, 99)
	r, err := archive.NewRun(want, nil)
	require.NoError(t, err)
	require.Equal(t, "8", r.Attempts[0].Outcome, "a kind was added: give it a name in the archive, and test it here")
	require.Equal(t, "99", r.Origin)
	got, err := r.Entry()
	require.NoError(t, err)
	require.Equal(t, want.Origin, got.Origin)
	require.Equal(t, want.Attempts, got.Attempts)
}

func endedAs(kind job.OutcomeKind, origin job.Origin) job.Entry {
	return job.Entry{
		Status: job.StatusFailed, Origin: origin, Attempts: []job.AttemptEnd{{Number: 1, Outcome: kind}},
	}
}

func TestWhatIsNotOfHistoryIsRefused(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]job.Entry{
		"live": {Status: job.StatusRunning},
		"far":  {Status: job.StatusFailed, EndedAt: time.Date(294276, 12, 31, 0, 0, 0, 0, time.UTC)},
		"fine": {Status: job.StatusFailed, StartedAt: time.Unix(0, 1)},
	} {
		_, err := archive.NewRun(e, nil)
		require.Error(t, err, name)
	}
	for name, r := range map[string]archive.Run{
		"origin":    {Origin: "else"},
		"partition": {Origin: "schedule", Partition: 1 << 20},
		"outcome":   {Origin: "schedule", Attempts: []archive.Attempt{{Outcome: "else"}}},
		"number":    {Origin: "99999"},
	} {
		_, err := r.Entry()
		require.Error(t, err, name)
	}
}
