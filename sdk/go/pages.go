package belfry

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/url"
)

// Pages iterates over all items of a list. fetch returns the page of a token, which is "" for the first page.
// The iteration ends with the first error, or after the last page.
func Pages[T any](fetch func(token string) (items []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token := ""; ; {
			items, next, err := fetch(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			token = next
		}
	}
}

// List iterates over all items of a list as raw JSON, for lists that the client has no method for. path is below
// /api/v1.
func (c *Client) List(ctx context.Context, path string, query url.Values) iter.Seq2[json.RawMessage, error] {
	return list[json.RawMessage](ctx, c, path, query, nil)
}

func list[T any](ctx context.Context, c *Client, path string, query url.Values, opts []CallOption) iter.Seq2[T, error] {
	return Pages(func(token string) ([]T, string, error) {
		q := maps.Clone(query)
		if token != "" {
			q = url.Values{"page_token": {token}}
			maps.Copy(q, query)
		}
		page, err := get[page[T]](ctx, c, path, q, opts)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.Next, nil
	})
}

// items reads a list that has a single page.
func items[T any](ctx context.Context, c *Client, path string, query url.Values, opts []CallOption) ([]T, error) {
	out, err := get[page[T]](ctx, c, path, query, opts)
	if err != nil {
		return nil, err
	}
	return out.Items, nil
}

type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next_page_token"`
}
