package pull_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// Large payloads come in several answers, in their order: small ones that are due
// later do not overtake them.
func TestAnAnswerHasSoManyBytes(t *testing.T) {
	t.Parallel()
	policies := map[string]job.Policy{"claimed": {Overlap: job.OverlapAllow}, "admitted": {Overlap: job.OverlapAllow, Deadline: job.Duration(time.Hour)}}
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			payload := json.RawMessage(`"` + strings.Repeat("x", 250_000) + `"`)
			var due []job.Key
			for i := range 48 { // some with a payload of their own
				large := b.job(fmt.Sprint("large", i), "x", func(d *job.Definition) { d.Policy, d.Payload = policy, payload })
				key, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: access.DefaultNamespace, ID: large, Actor: "test"}, [][]byte{nil, payload}[i%2])
				require.NoError(t, err)
				due = append(due, key)
			}
			for i := range 5 {
				due = append(due, b.trigger(b.job(fmt.Sprint("small", i), "x", func(d *job.Definition) { d.Policy = policy })))
			}
			var got []job.Claimed
			answers := 0
			for s := b.open(); len(got) < len(due); answers++ {
				more := b.claim(s, 100, patience, "x")
				require.NotEmpty(t, more)
				size := 0
				for _, r := range more {
					size += len(r.Payload)
				}
				require.LessOrEqual(t, size, job.MaxClaimBytes+len(payload))
				got = append(got, more...)
			}
			require.GreaterOrEqual(t, answers, 2)
			at := func(k job.Key) int64 { return k.DueAt.UnixMicro() }
			require.True(t, slices.IsSortedFunc(got, func(x, y job.Claimed) int { return int(at(x.Key) - at(y.Key)) }))
		})
	}
}
