package belfry

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
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

// List iterates over all items of a list as raw JSON, for lists that this version of the client has no method
// for. path is below /api/v1.
func (c *Client) List(ctx context.Context, path string, query url.Values) iter.Seq2[json.RawMessage, error] {
	return Pages(func(token string) ([]json.RawMessage, string, error) {
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next_page_token"`
		}
		q := url.Values{}
		maps.Copy(q, query)
		if token != "" {
			q.Set("page_token", token)
		}
		err := c.Call(ctx, Request{Method: http.MethodGet, Path: path, Query: q}, &page)
		return page.Items, page.Next, err
	})
}
