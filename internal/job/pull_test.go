package job_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestAssign(t *testing.T) {
	t.Parallel()
	const free, alone = job.AdmitFreely, job.AdmitIfAlone
	// due returns runs of a handler: one for each letter, which names its job.
	due := func(handler, jobs string, admit job.AdmitRule) (out []job.Due) {
		for i, id := range []byte(jobs) {
			key := job.Key{Job: uuid.UUID{id}, Seq: int16(i)}
			out = append(out, job.Due{Key: key, Handler: handler, Admit: admit})
		}
		return out
	}
	mixed := due("x", "ab", free)
	mixed[0].Handler = "z"
	both := job.Poll{Handlers: []string{"x", "y"}, Max: 2}
	onlyX := job.Poll{Handlers: []string{"x"}, Max: 10}
	for name, c := range map[string]struct {
		due   []job.Due
		polls []job.Poll
		want  []int // the poll of each run; -1: none
	}{
		"spread over polls":              {due("x", "abcd", free), []job.Poll{both, onlyX}, []int{0, 1, 0, 1}},
		"only if it knows the handler":   {due("y", "abc", free), []job.Poll{onlyX, both}, []int{1, 1, -1}},
		"no more than the maximum":       {due("x", "abc", free), []job.Poll{both}, []int{0, 0, -1}},
		"an unknown handler":             {mixed, []job.Poll{both, onlyX}, []int{-1, 0}},
		"one of a job with admission":    {due("x", "aab", alone), []job.Poll{onlyX}, []int{0, -1, 0}},
		"all of a job without admission": {due("x", "aa", free), []job.Poll{onlyX}, []int{0, 0}},
		"a maximum of zero":              {due("x", "a", free), []job.Poll{{Handlers: []string{"x"}}}, []int{-1}},
	} {
		got := make([]int, len(c.due))
		for i := range got {
			got[i] = -1
		}
		for _, a := range job.Assign(c.due, c.polls) {
			got[a.Seq] = a.Poll
		}
		require.Equal(t, c.want, got, name)
	}
}
