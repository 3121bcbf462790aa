package refusal

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

// TestAFloodIsFewEntries: however many requests of however many keys are refused, a namespace gets a bounded number of
// entries, each of a bounded size, and every request is counted.
func TestAFloodIsFewEntries(t *testing.T) {
	t.Parallel()
	written := map[uuid.UUID][]access.Refusal{}
	l := &Log{Write: func(_ context.Context, namespace uuid.UUID, all []access.Refusal) error {
		written[namespace] = append(written[namespace], all...)
		return nil
	}}
	flooded, quiet := uuid.New(), uuid.New()
	for key := range 100 {
		p := access.Principal{Key: uuid.UUID{15: byte(key + 1)}, Namespace: flooded}
		for i := range 100 {
			l.Note(p, fmt.Sprint("operation-", i), access.Origin{Request: fmt.Sprint(i)})
		}
	}
	l.Note(access.Principal{Key: uuid.New(), Namespace: quiet}, "delete-job", access.Origin{})
	next, err := l.Once(t.Context())
	require.NoError(t, err)
	require.Equal(t, time.Minute, next, "so there are few entries in a day too")
	require.Len(t, written[quiet], 1)
	require.Len(t, written[flooded], maxKeys+1)
	count, shared := 0, 0
	for _, r := range written[flooded] {
		count += r.Count
		require.Equal(t, "0", r.Origin.Request, "of the first")
		require.Len(t, r.Operations, maxOperations)
		if r.Principal.Key == uuid.Nil {
			shared = r.Count
		}
	}
	require.Equal(t, 10_000, count)
	require.Equal(t, 9_000, shared)

	clear(written)
	_, err = l.Once(t.Context())
	require.NoError(t, err)
	require.Empty(t, written)
}

// TestWhatCannotBeWrittenIsKept: it is merged with what is refused meanwhile.
func TestWhatCannotBeWrittenIsKept(t *testing.T) {
	t.Parallel()
	p := access.Principal{Key: uuid.New(), Namespace: uuid.New()}
	l := &Log{}
	l.Write = func(context.Context, uuid.UUID, []access.Refusal) error {
		l.Note(p, "pause-job", access.Origin{Request: "second"})
		return errors.New("no database")
	}
	l.Note(p, "delete-job", access.Origin{Request: "first"})
	_, err := l.Once(t.Context())
	require.Error(t, err)
	var got []access.Refusal
	l.Write = func(_ context.Context, _ uuid.UUID, all []access.Refusal) error { got = all; return nil }
	_, err = l.Once(t.Context())
	require.NoError(t, err)
	require.Equal(t, []access.Refusal{{
		Principal: p, Origin: access.Origin{Request: "first"}, Count: 2, Operations: []string{"delete-job", "pause-job"},
	}}, got)
}
