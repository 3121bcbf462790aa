package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/schedule"
)

const maxPreview = 1000

type previewFlags struct {
	zone, from, key string
	output          *string
	gap, fold       *usage.Choice
	n               int
}

func newPreview() *cobra.Command {
	var f previewFlags
	cmd := &cobra.Command{
		Use:   "preview SCHEDULE",
		Short: "Print the next times of a schedule, and what DST does to them",
		Long: `Print the next times of a schedule in its zone and in UTC, and mark the days
on which a change of the clock shifts, skips or doubles something. It needs no
server.

SCHEDULE is a cron expression (5 fields, or 6 with seconds first; L W # H and
@daily and the like), "every 15m", an ISO-8601 time, an RFC 5545 rule, or the
JSON object that the API takes.`,
		Example: `  belfry preview '30 2 * * *' --tz America/New_York -n 8
  belfry preview '30 2 * * *' --tz America/New_York --from 2026-03-06 --gap skip
  belfry preview 'every 90m' --from 2026-01-01T00:00:00Z -o json
  belfry preview 'FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17' --tz Europe/Berlin
  belfry preview '{"cron":"0 9 * * *","timezone":"Asia/Tokyo","calendars":[{"weekdays":["sat","sun"]}]}'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return fmt.Errorf("preview takes one SCHEDULE, got %d; put it in quotes: belfry preview '30 2 * * *'",
				len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return preview(cmd.OutOrStdout(), args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.zone, "tz", "", "IANA time zone (default UTC)")
	fl.IntVarP(&f.n, "count", "n", 5, fmt.Sprintf("how many times, 1 to %d", maxPreview))
	fl.StringVar(&f.from, "from", "",
		"list times from this one on: RFC 3339, or a date or time in the zone (default now)")
	f.gap = usage.NewChoice(fl, "gap", "times that do not exist: %s (default shift)", "shift", "skip")
	f.fold = usage.NewChoice(fl, "fold", "times that happen twice: %s (default first)", "first", "second", "both")
	fl.StringVar(&f.key, "key", "", "text that H is spread by; a job uses its id")
	f.output = usage.OutputFlag(fl)
	return cmd
}

func preview(w io.Writer, text string, f previewFlags) error {
	if f.n < 1 || f.n > maxPreview {
		return usage.Errorf("-n %d: use 1 to %d", f.n, maxPreview)
	}
	if err := usage.CheckOutput(*f.output); err != nil {
		return err
	}
	spec, err := previewSpec(text, f)
	if err != nil {
		return err
	}
	s, err := schedule.New(spec, f.key)
	if err != nil {
		return err
	}
	from, err := previewFrom(f.from, s.Zone())
	if err != nil {
		return err
	}
	lines, more, err := s.Preview(from, f.n)
	if err != nil {
		return err
	}
	if *f.output != usage.Table {
		return writePreviewData(w, *f.output, s, lines)
	}
	return writePreviewTable(w, s, spec, lines, previewNotes(spec, f.key, more))
}

// previewNotes explains what the times alone do not show.
func previewNotes(spec schedule.Spec, key string, more bool) (notes []string) {
	if !more {
		notes = append(notes, "no further occurrence")
	}
	if key == "" && usesH(spec.Cron) {
		notes = append(notes, "H is spread by the job's id: with --key ID these are the times of that job")
	}
	if spec.Jitter != "" {
		notes = append(notes, "each run starts up to "+spec.Jitter+" later (jitter)")
	}
	return notes
}

// usesH reports whether a cron expression has an H. The last two fields are months and weekdays, whose
// names may contain the letter.
func usesH(cron string) bool {
	f := strings.Fields(cron)
	return len(f) > 1 && strings.ContainsAny(strings.Join(f[:len(f)-2], ""), "hH")
}

// previewSpec joins the argument and the flags. A flag overrides the argument.
func previewSpec(text string, f previewFlags) (schedule.Spec, error) {
	var spec schedule.Spec
	var err error
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		err = json.Unmarshal([]byte(text), &spec)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			err = fmt.Errorf("the SCHEDULE begins with { but is not JSON (%w); check quotes and braces", syntax)
		}
	} else {
		spec, err = schedule.Parse(text)
	}
	if f.zone != "" {
		spec.Timezone = f.zone
	}
	if gap := f.gap.String(); gap != "" {
		spec.DST.Gap = schedule.Gap(gap)
	}
	if fold := f.fold.String(); fold != "" {
		spec.DST.Fold = schedule.Fold(fold)
	}
	return spec, err
}

func previewFrom(text string, zone *time.Location) (time.Time, error) {
	if text == "" {
		return clock.Now(), nil
	}
	for _, layout := range usage.TimeLayouts {
		t, err := time.ParseInLocation(layout, text, zone)
		if err != nil {
			continue
		}
		if t.Year() < 1970 || t.Year() > 2199 {
			return t, fmt.Errorf("--from %q: use a year from 1970 to 2199", text)
		}
		return t, nil
	}
	return time.Time{}, fmt.Errorf("--from %q is not a time; write 2026-03-06, 2026-03-06T10:00 or"+
		" 2026-03-06T10:00:00Z", text)
}
