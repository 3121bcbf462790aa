package rest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

type onceOutput struct {
	Location string `header:"Location"`
	Body     struct {
		Number int `json:"number"`
	}
}

// TestOnceReturnsTheStoredResponse: a repetition returns headers and body of the first response.
func TestOnceReturnsTheStoredResponse(t *testing.T) {
	t.Parallel()
	respond := func(n int) *onceOutput {
		out := &onceOutput{Location: fmt.Sprintf("/things/%d", n)}
		out.Body.Number = n
		return out
	}
	var stored []byte
	var request [32]byte
	carryOut := func(once *job.IdempotentRequest) (int, error) {
		require.Equal(t, "k", once.Key)
		if stored != nil {
			require.Equal(t, request, once.Request)
			once.Response = stored
			return 0, job.ErrAlreadyDone
		}
		var err error
		stored, err = once.Encode(7)
		request = once.Request
		return 7, err
	}
	in := &Idempotency{IdempotencyKey: "k"}
	for range 2 {
		out, err := Once(in, "create-thing", map[string]int{"a": 1}, respond, carryOut)
		require.NoError(t, err)
		require.Equal(t, respond(7), out)
	}
	out, err := Once(in, "create-thing", nil, respond, func(*job.IdempotentRequest) (int, error) {
		return 0, job.ErrConflict
	})
	require.ErrorIs(t, err, job.ErrConflict)
	require.Nil(t, out)
	out, err = Once(&Idempotency{}, "create-thing", nil, respond, func(once *job.IdempotentRequest) (int, error) {
		require.Nil(t, once, "without a key")
		return 8, nil
	})
	require.NoError(t, err)
	require.Equal(t, respond(8), out)
}
