package admin

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

func newLoad() *cobra.Command {
	var labels []string
	var queue, from, to string
	cmd := &cobra.Command{
		Use: "load", Short: "Show when how many runs are due", Args: usage.Args(0, 0),
		Long: `Show how many runs are due in each minute, by default of the next 24 hours. One line
is an hour, with a shade for each of its minutes, and the busiest minutes follow
with the schedules behind them. All times are in UTC.`,
		Example: `  belfry load
  belfry load --queue imports --label team=finance
  belfry load --from 2027-01-31T00:00:00Z --to 2027-02-01T00:00:00Z -o json`,
	}
	f := cmd.Flags()
	f.StringArrayVar(&labels, "label", nil, "key=value; may be repeated")
	f.StringVar(&queue, "queue", "", "name of a queue")
	usage.TimeFlag(f, &from, "from", "begin, by default the next full minute")
	usage.TimeFlag(f, &to, "to", "end, by default a day after the begin")
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
		raw, err := r.Get(ctx, "/load", remote.DropEmpty(url.Values{
			"label": labels, "queue": {queue}, "from": {from}, "to": {to},
		}))
		if err != nil {
			return err
		}
		return r.Show(raw, func() error {
			l, err := terminal.Decode[loadView](raw)
			if err != nil {
				return err
			}
			return l.print(r)
		})
	})
	return remote.Flags(cmd)
}

// loadView is how many runs are due in each minute.
type loadView struct {
	From     time.Time `json:"from"`
	Counts   []int64   `json:"counts"`
	Exact    bool      `json:"exact"`
	Fraction float64   `json:"fraction"`
	Capacity *int64    `json:"capacity"`
	Hot      []struct {
		At        time.Time `json:"at"`
		Count     int64     `json:"count"`
		Schedules []struct {
			Words string `json:"words"`
			Jobs  int64  `json:"jobs"`
		} `json:"schedules"`
	} `json:"hot"`
}

func (l *loadView) print(r *remote.Server) error {
	if err := terminal.WriteTable(r.Out, []string{"HOUR UTC", "RUNS", "PEAK", "MINUTES 00 TO 59"}, l.hours()); err != nil {
		return err
	}
	if len(l.Hot) > 0 {
		r.Line("")
	}
	var rows [][]string
	for _, hot := range l.Hot {
		var by []string
		for _, s := range hot.Schedules {
			by = append(by, fmt.Sprintf("%d × %s", s.Jobs, s.Words))
		}
		at := hot.At
		rows = append(rows, []string{terminal.Time(&at, nil), strconv.FormatInt(hot.Count, 10), strings.Join(by, ", ")})
	}
	if err := terminal.WriteTable(r.Out, []string{"BUSIEST UTC", "RUNS", "SCHEDULE"}, rows); err != nil {
		return err
	}
	if l.Capacity != nil {
		r.Note("The rate of the queue allows %d starts per minute.", *l.Capacity)
	}
	if !l.Exact {
		r.Note("There are very many jobs: these are estimates from %.2g %% of them.", 100*l.Fraction)
	}
	return nil
}

// hours returns a row for each hour.
func (l *loadView) hours() (rows [][]string) {
	most := int64(0)
	if len(l.Counts) > 0 {
		most = slices.Max(l.Counts)
	}
	for i := 0; i < len(l.Counts); {
		begin := l.From.Add(time.Duration(i) * time.Minute)
		hour := begin.Truncate(time.Hour)
		shades := strings.Repeat(" ", begin.Minute())
		runs, peak := int64(0), int64(0)
		for ; i < len(l.Counts) && l.From.Add(time.Duration(i)*time.Minute).Before(hour.Add(time.Hour)); i++ {
			runs, peak = runs+l.Counts[i], max(peak, l.Counts[i])
			shades += shade(l.Counts[i], most)
		}
		rows = append(rows, []string{
			terminal.Time(&hour, nil), strconv.FormatInt(runs, 10), strconv.FormatInt(peak, 10), shades,
		})
	}
	return rows
}

// shade returns one of five shades for a count, on a logarithmic scale.
func shade(n, most int64) string {
	shades := []string{"░", "▒", "▓", "█"}
	if n == 0 {
		return "·"
	}
	return shades[int(math.Log(float64(n))/math.Log(float64(max(most, 2))+1)*float64(len(shades)))]
}
