package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/belfry-dev/belfry/internal/cli/terminal"
)

// MaxPage is the largest page_size that the API accepts.
const MaxPage = 500

// LimitFlag adds the flag --limit of a list.
func LimitFlag(f *pflag.FlagSet) *int { return f.Int("limit", 50, "at most so many; 0: all") }

// Listing says what to list.
type Listing struct {
	Path    string
	Query   url.Values // filters; empty ones are ignored
	Limit   int        // 0: all
	OnePage bool       // the server sends everything in one page, and takes no page_size
	Headers []string
	None    string // printed for an empty list
}

// List fetches a list and prints it.
func List[T any](ctx context.Context, r *Server, from Listing, row func(T) []string) error {
	query := DropEmpty(from.Query)
	if !from.OnePage {
		size := MaxPage
		if from.Limit > 0 {
			size = min(from.Limit, MaxPage)
		}
		query.Set("page_size", strconv.Itoa(size))
	}
	raws, more := []json.RawMessage{}, false
	for raw, err := range r.List(ctx, from.Path, query) {
		if err != nil {
			return err
		}
		if more = from.Limit > 0 && len(raws) == from.Limit; more {
			break
		}
		raws = append(raws, raw)
	}
	all, err := json.Marshal(raws)
	if err != nil {
		return err
	}
	err = r.Show(all, func() error {
		if len(raws) == 0 {
			r.Note("%s", cmp.Or(from.None, "none"))
			return nil
		}
		items, err := terminal.Decode[[]T](all)
		if err != nil {
			return err
		}
		rows := make([][]string, len(items))
		for i, item := range items {
			rows[i] = row(item)
		}
		return terminal.WriteTable(r.Out, from.Headers, rows)
	})
	if more {
		r.Note("there are more; --limit 0 lists all")
	}
	return err
}

// DropEmpty returns a query without the filters that were not set.
func DropEmpty(query url.Values) url.Values {
	set := url.Values{}
	for name, values := range query {
		if len(values) > 0 && values[0] != "" {
			set[name] = values
		}
	}
	return set
}
