package pull_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// Large payloads are split over several replies and keep their order: small runs that are due later do not
// overtake them.
func TestRepliesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprint("alone ", alone), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.lossy().alone.Store(alone)
			payload := json.RawMessage(`"` + strings.Repeat("x", 250_000) + `"`)
			due := b.triggerLarge(48, payload)
			for i := range 5 {
				due = append(due, b.trigger(b.job(fmt.Sprint("small", i), "x", nil)))
			}
			var got []job.Claimed
			replies := 0
			for s := b.open(); len(got) < len(due); replies++ {
				more := b.claim(s, 100, patience, "x")
				require.NotEmpty(t, more)
				size := 0
				for _, r := range more {
					size += len(r.Payload)
				}
				require.LessOrEqual(t, size, job.MaxClaimBytes+len(payload))
				got = append(got, more...)
			}
			require.GreaterOrEqual(t, replies, 2)
			byDueTime := func(x, y job.Claimed) int { return x.Key.DueAt.Compare(y.Key.DueAt) }
			require.True(t, slices.IsSortedFunc(got, byDueTime))
		})
	}
}

// triggerLarge triggers n jobs with a large payload, every second one with a payload of its own.
func (b *bundle) triggerLarge(n int, payload json.RawMessage) (due []job.Key) {
	b.t.Helper()
	for i := range n {
		id := b.job(fmt.Sprint("large", i), "x", func(d *job.Definition) { d.Payload = payload })
		change := job.ChangeParams{Namespace: access.DefaultNamespace, ID: id, Actor: "test"}
		key, err := b.store.TriggerJob(b.t.Context(), change, [][]byte{nil, payload}[i%2])
		require.NoError(b.t, err)
		due = append(due, key)
	}
	return due
}
