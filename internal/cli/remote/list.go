package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/clock"
)

// MaxPage is the largest page_size that the API accepts.
const MaxPage = 500

// PollPause is the pause between two requests for the state of something that a command waits for.
const PollPause = 500 * time.Millisecond

// watchPause is the pause between two requests of --watch.
const watchPause = 2 * time.Second

// LimitFlag adds the flags --limit and --watch of a list.
func LimitFlag(f *pflag.FlagSet) *int {
	f.BoolP("watch", "w", false, "print the list again whenever it changes, until Ctrl-C")
	return f.Int("limit", 50, "maximum number of items; 0: all")
}

// Listing says what to list.
type Listing struct {
	Path    string
	Query   url.Values // filters; empty ones are ignored
	Limit   int        // 0: all
	OnePage bool       // the server sends everything in one page, and takes no page_size
	Reverse bool       // print the last item first

	Drop func(json.RawMessage) bool // leaves out items that no filter of the server does; nil: none

	Headers []string
	Wide    []string // headers of the columns that only -o wide has
	Name    string   // field that -o name prints; default name
	None    string   // printed for an empty list
}

// List fetches a list and prints it. row returns the cells of Headers and of Wide.
func List[T any](ctx context.Context, r *Server, from Listing, row func(T) []string) error {
	if from.Limit < 0 {
		return usage.Errorf("--limit %d is negative; use 1 or more, or 0 for all", from.Limit)
	}
	watch, _ := r.Cmd.Flags().GetBool("watch")
	last := ""
	for {
		all, more, err := fetch(ctx, r, from)
		if err == nil && string(all) != last {
			last = string(all)
			if watch {
				r.Refresh()
			}
			err = printList(r, from, all, row)
			if more {
				r.Note("there are more; --limit 0 lists all")
			}
		}
		switch {
		case watch && err == nil:
			Pause(ctx, watchPause)
		case watch && errors.Is(err, context.Canceled): // Ctrl-C is how --watch ends
			return nil
		}
		if !watch || err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// Refresh begins a new picture for --watch: it clears a terminal, and elsewhere separates the lists by a line.
func (r *Server) Refresh() {
	switch {
	case terminal.Width(r.Out) > 0:
		terminal.NewPrinter(r.Out).Part("\x1b[H\x1b[2J")
	case r.ForPeople():
		r.Line("--- %s", clock.Now().UTC().Format(time.RFC3339))
	}
}

// fetch returns the items of a list as one JSON array, and whether there are more than its limit.
func fetch(ctx context.Context, r *Server, from Listing) (all []byte, more bool, err error) {
	query := DropEmpty(from.Query)
	if !from.OnePage {
		size := MaxPage
		if from.Limit > 0 && !from.Reverse && from.Drop == nil {
			size = min(from.Limit, MaxPage)
		}
		query.Set("page_size", strconv.Itoa(size))
	}
	raws := []json.RawMessage{}
	for raw, err := range r.List(ctx, from.Path, query) {
		if err != nil {
			return nil, false, err
		}
		if from.Drop != nil && from.Drop(raw) {
			continue
		}
		if more = !from.Reverse && from.Limit > 0 && len(raws) == from.Limit; more {
			break
		}
		raws = append(raws, raw)
	}
	if from.Reverse {
		slices.Reverse(raws)
		if more = from.Limit > 0 && len(raws) > from.Limit; more {
			raws = raws[:from.Limit]
		}
	}
	all, err = json.Marshal(raws)
	return all, more, err
}

func printList[T any](r *Server, from Listing, all []byte, row func(T) []string) error {
	if r.format == outputName {
		return r.printNames(all, cmp.Or(from.Name, "name"))
	}
	return r.Show(all, func() error {
		items, err := terminal.Decode[[]T](all)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			r.Note("%s", cmp.Or(from.None, "none"))
			return nil
		}
		headers, write := from.Headers, terminal.WriteTable
		if r.format == outputWide {
			headers, write = slices.Concat(headers, from.Wide), terminal.WriteWideTable
		}
		rows := make([][]string, len(items))
		for i, item := range items {
			rows[i] = row(item)[:len(headers)]
		}
		return write(r.Out, headers, rows)
	})
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
