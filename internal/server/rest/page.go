package rest

import (
	"context"

	"github.com/google/uuid"
)

// PageInput is the input of operations that list things: which page to send.
type PageInput struct {
	PageSize  int    `query:"page_size" minimum:"1" maximum:"500" default:"50" doc:"Maximum size. A shorter page need not be the last."`
	PageToken string `query:"page_token" maxLength:"1000" doc:"next_page_token of the last page. Keep the filters."`
}

// After reads the page token into a mark, which is where the page before ended. Without a token the
// mark stays as it is.
func (p *PageInput) After(ctx context.Context, mark any) error {
	return ParseToken(ctx, p.PageToken, mark)
}

// Page is a page of a list. Its schema is named after its items: JobList is a page of jobs.
type Page[W any] struct {
	Items         []W    `json:"items"`
	NextPageToken string `json:"next_page_token,omitempty" doc:"page_token of the next page. Absent: no more."`
}

// PageOutput is the output of operations that list things.
type PageOutput[W any] struct {
	Body Page[W]
}

// List reads pages of a list from the store. M is the mark where a page ends, T an item of the store
// and W its JSON.
type List[M, T, W any] struct {
	First M // where the first page begins
	Read  func(ctx context.Context, namespace uuid.UUID, after M, limit int) ([]T, error)
	Mark  func(T) M
	Wire  func(T) W
}

// Page reads one page. It asks the store for one item more than fits, to know whether there is more.
func (l List[M, T, W]) Page(ctx context.Context, in *PageInput) (*PageOutput[W], error) {
	after := l.First
	if err := in.After(ctx, &after); err != nil {
		return nil, err
	}
	found, err := l.Read(ctx, Principal(ctx).Namespace, after, in.PageSize+1)
	if err != nil {
		return nil, err
	}
	out := &PageOutput[W]{}
	if len(found) > in.PageSize {
		found = found[:in.PageSize]
		out.Body.NextPageToken = Token(ctx, l.Mark(found[in.PageSize-1]))
	}
	out.Body.Items = Map(found, l.Wire)
	return out, nil
}

// Map converts each item. The result is never nil, so that an empty list is [] in JSON.
func Map[T, W any](items []T, convert func(T) W) []W {
	out := make([]W, len(items))
	for i, item := range items {
		out[i] = convert(item)
	}
	return out
}
