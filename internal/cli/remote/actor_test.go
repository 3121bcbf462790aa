package remote

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestActorsCannotBeForged: whatever names keys and people have, actors look different, and end in the id that Belfry gave
// them.
func TestActorsCannotBeForged(t *testing.T) {
	t.Parallel()
	for actor, want := range map[string]string{
		"user:ann@example.com [user_2]":                     "ann@example.com · user_2",
		"key:user:ann@example.com [key_1]":                  "user:ann@example.com · key_1",
		"user:ann [x [user_3]":                              "ann [x · user_3",
		"key:belfry [key_4]":                                "belfry · key_4",
		"key:ci [key_06f8m2tq5dtk1e7n9q0c3s5v7g]":           "ci · key_06f8m2tq5d…",
		"key:ann · user_2 [key_06f8m2tq5dtk1e7n9q0c3s5v7g]": "ann · user_2 · key_06f8m2tq5d…",
		"belfry": "belfry",
		"":       "-",
	} {
		require.Equal(t, want, ActorName(actor))
	}
}
