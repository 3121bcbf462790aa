package rest

import (
	"context"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestAListIsReadPageByPage: each item is on one page, and only the last page has no token.
func TestAListIsReadPageByPage(t *testing.T) {
	t.Parallel()
	const items = 7
	list := List[int, int, string]{
		First: 100,
		Read: func(_ context.Context, _ uuid.UUID, after, limit int) (out []int, _ error) {
			for n := after + 1; n <= 100+items && len(out) < limit; n++ {
				out = append(out, n)
			}
			return out, nil
		},
		Mark: func(n int) int { return n },
		Wire: strconv.Itoa,
	}
	ctx := context.WithValue(t.Context(), apiKey{}, New(Options{}))
	for size, pages := range map[int]int{1: 7, 2: 4, 3: 3, 6: 2, 7: 1, 8: 1} {
		in := &PageInput{PageSize: size}
		var got []string
		for range pages {
			page, err := list.Page(ctx, in)
			require.NoError(t, err)
			got = append(got, page.Body.Items...)
			in.PageToken = page.Body.NextPageToken
		}
		require.Empty(t, in.PageToken, "size %d", size)
		require.Equal(t, []string{"101", "102", "103", "104", "105", "106", "107"}, got)
	}
	list.First = 200
	page, err := list.Page(ctx, &PageInput{PageSize: 5})
	require.NoError(t, err)
	require.NotNil(t, page.Body.Items, "an empty list is [] in JSON")
	for _, token := range []string{"%", "x", Token(ctx, "text")} {
		_, err = list.Page(ctx, &PageInput{PageSize: 5, PageToken: token})
		require.Equal(t, "bad_request", codeOfError(t, err), token)
	}
}
