package main

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	"github.com/spf13/pflag"
)

const maxPage = 500 // of the API

// limitFlag is that of each list.
func limitFlag(f *pflag.FlagSet) *int { return f.Int("limit", 50, "at most so many; 0: all") }

// list fetches up to so many items of a list, and prints them.
func list[T any](ctx context.Context, r *remote, from listing, row func(T) []string) error {
	if from.query == nil {
		from.query = url.Values{}
	}
	for name, values := range from.query {
		if len(values) == 0 || values[0] == "" {
			from.query.Del(name) // a filter that was not set
		}
	}
	size := maxPage
	if from.limit > 0 {
		size = min(from.limit, maxPage)
	}
	if !from.whole {
		from.query.Set("page_size", strconv.Itoa(size))
	}
	raws, more := []json.RawMessage{}, false
	for raw, err := range r.List(ctx, from.path, from.query) {
		if err != nil {
			return err
		}
		if more = from.limit > 0 && len(raws) == from.limit; more {
			break
		}
		raws = append(raws, raw)
	}
	all, err := json.Marshal(raws)
	if err != nil {
		return err
	}
	err = r.show(all, func() error {
		if len(raws) == 0 {
			r.note("%s", first(from.none, "none"))
			return nil
		}
		items, err := view[[]T](all)
		if err != nil {
			return err
		}
		rows := make([][]string, len(items))
		for i, item := range items {
			rows[i] = row(item)
		}
		return writeTable(r.out, from.headers, rows)
	})
	if more {
		r.note("there are more; --limit 0 lists all")
	}
	return err
}

// listing says what to list.
type listing struct {
	path    string
	query   url.Values
	limit   int  // 0: all
	whole   bool // the server sends it in one page, and takes no page_size
	headers []string
	none    string // what is said of an empty list
}
