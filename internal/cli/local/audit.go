package local

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

// AuditLedger returns the command audit ledger.
func AuditLedger() *cobra.Command {
	var p app.AuditParams
	var from, to, with string
	var output *string
	cmd := &cobra.Command{
		Use: "ledger", Short: "Check that every occurrence is in the ledger", Args: noArgs,
		Long: `Compare the ledger with what the schedules of all jobs demand, in all namespaces:
is every occurrence that came due in the ledger, and nothing else? It reads the
database in short transactions while nodes work, and changes nothing except that
it records what it finds: belfry why shows it.

It ends with code 1 if an occurrence is missing, if an entry is one that no
schedule demands, or if a run was early.

With --with oracle, due times are computed by a second implementation that shares
no code with the planner. Schedules that it does not know (rrule, calendars, H)
are computed by the planner's code and counted.`,
		Example: `  belfry audit ledger
  belfry audit ledger --from 2026-03-01 --to 2026-03-08 --with oracle
  belfry audit ledger --job report -o json
  belfry audit ledger --from 2026-03-01 --backfill`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := usage.CheckOutput(*output); err != nil {
				return err
			}
			if with != "" && with != "oracle" {
				return usage.Errorf("--with %s: the only value is oracle", with)
			}
			p.Oracle = with != ""
			for text, at := range map[*string]*time.Time{&from: &p.Window.From, &to: &p.Window.To} {
				if *text == "" {
					continue
				}
				var err error
				if *at, err = time.Parse(time.RFC3339Nano, *text); err != nil {
					return err
				}
			}
			return runAudit(cmd, p, *output)
		},
	}
	f := cmd.Flags()
	databaseFlags(f)
	usage.TimeFlag(f, &from, "from", "after this due time (default 24 hours before --to)")
	usage.TimeFlag(f, &to, "to", "up to this due time (default now)")
	f.StringVar(&p.Job, "job", "", "only this job, by id or name")
	f.StringVar(&with, "with", "", "oracle: compute due times without the planner's code")
	f.BoolVar(&p.Backfill, "backfill", false, "run the occurrences that are missing")
	output = usage.OutputFlag(f)
	return cmd
}

func runAudit(cmd *cobra.Command, p app.AuditParams, output string) error {
	v, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	warn(cmd, v)
	bar := terminal.NewProgress(cmd.ErrOrStderr(), "audit, partitions", job.Partitions)
	defer bar.End()
	p.Progress = bar.Set
	r, err := app.Audit(cmd.Context(), v.DatabaseURL, p)
	if err != nil {
		return err
	}
	bar.End()
	if output == usage.Table {
		err = printAudit(cmd, &r, p.Backfill)
	} else {
		err = terminal.WriteValue(cmd.OutOrStdout(), output, viewAudit(&r))
	}
	if n := r.Wrong(); err == nil && n > 0 {
		err = fmt.Errorf("the audit found %s; see docs/guide/audit.md#what-to-do-with-a-finding",
			problem.Count(n, "problem"))
	}
	return err
}

// auditView is an audit in the output for programs.
type auditView struct {
	AskedFrom     time.Time            `json:"asked_from"`
	From          time.Time            `json:"from"`
	To            time.Time            `json:"to"`
	Jobs          int64                `json:"jobs"`
	Expected      int64                `json:"expected"`
	Ran           int64                `json:"ran"`
	Skipped       map[job.Reason]int64 `json:"skipped"`
	Live          int64                `json:"live"`
	Backfilled    int64                `json:"backfilled"`
	Paused        int64                `json:"paused"`
	NotPlanned    int64                `json:"not_planned"`
	Missing       int64                `json:"missing"`
	Phantom       int64                `json:"phantom"`
	Early         int64                `json:"early"`
	Duplicates    int64                `json:"duplicates"`
	WithoutOracle int64                `json:"without_oracle"`
	Unreadable    int64                `json:"unreadable_jobs"`
	BackfilledNow int                  `json:"backfilled_now"`
	NotBackfilled []string             `json:"not_backfilled"`
	Findings      []findingView        `json:"findings"`
}

type findingView struct {
	Kind      auditor.Kind `json:"kind"`
	Namespace string       `json:"namespace"`
	Job       string       `json:"job"`
	Name      string       `json:"name"`
	DueAt     time.Time    `json:"due_at"`
}

func viewAudit(r *app.AuditResult) auditView {
	v := auditView{
		AskedFrom: r.AskedFrom, From: r.Window.From, To: r.Window.To, Jobs: r.Jobs, Expected: r.Expected, Ran: r.Run,
		Skipped: r.Skipped, Live: r.Live, Backfilled: r.Backfilled, Paused: r.Paused, NotPlanned: r.NotPlanned,
		Missing: r.Missing, Phantom: r.Phantom, Early: r.Early, Duplicates: r.Duplicates, WithoutOracle: r.WithoutOracle,
		Unreadable: r.Unreadable, BackfilledNow: r.BackfilledNow, NotBackfilled: []string{}, Findings: []findingView{},
	}
	if v.Skipped == nil {
		v.Skipped = map[job.Reason]int64{}
	}
	for _, err := range r.NotBackfilled {
		v.NotBackfilled = append(v.NotBackfilled, err.Error())
	}
	for _, f := range r.Findings {
		v.Findings = append(v.Findings, findingView{
			f.Kind, r.Namespaces[f.Namespace], job.FormatJobID(f.Job), f.Name, f.DueAt,
		})
	}
	return v
}

// maxPrinted bounds the findings that people are shown. JSON has more.
const maxPrinted = 100

func printAudit(cmd *cobra.Command, r *app.AuditResult, backfill bool) error {
	p := terminal.NewPrinter(cmd.OutOrStdout())
	stamp := func(at time.Time) string { return terminal.Time(&at, nil) }
	p.Line("due times after %s up to %s UTC, %s", stamp(r.Window.From), stamp(r.Window.To),
		problem.Count(r.Jobs, "job"))
	if r.JudgedFrom.After(r.AskedFrom) {
		p.Line("asked from %s on; history can be judged from %s on", stamp(r.AskedFrom), stamp(r.JudgedFrom))
	}
	line := func(name string, n int64, note string) {
		if n > 0 || note == "" {
			p.Line("%12d  %s%s", n, name, note)
		}
	}
	line("expected", r.Expected, "")
	line("ran", r.Run, "")
	line("live", r.Live, "")
	for _, reason := range slices.Sorted(maps.Keys(r.Skipped)) {
		line("skipped: "+string(reason), r.Skipped[reason], "")
	}
	line("backfilled", r.Backfilled, " (missing, and run since)")
	line("paused", r.Paused, " (they wait until their job is resumed)")
	line("not planned", r.NotPlanned, " (their schedule is behind, and nodes will come to them)")
	line("missing", r.Missing, "")
	line("phantom", r.Phantom, "")
	line("early", r.Early, "")
	line("duplicates", r.Duplicates, "")
	line("without oracle", r.WithoutOracle, " (the oracle does not know their schedules)")
	line("jobs not judged", r.Unreadable, " (this version cannot read them)")
	if err := p.Err(); err != nil {
		return err
	}
	if err := printFindings(cmd, r); err != nil {
		return err
	}
	if more := r.Found() - int64(min(len(r.Findings), maxPrinted)); more > 0 {
		p.Line("… and %d more; -o json lists up to 10,000", more)
	}
	if r.Found() > 0 {
		advice := "keep the logs and the WAL of that time and report it"
		if r.Missing > 0 && !backfill {
			advice += "; --backfill runs what is missing"
		}
		p.Line("%s", advice)
	}
	if backfill {
		p.Line("run now: %s", problem.Count(r.BackfilledNow, "missing occurrence"))
		for _, err := range r.NotBackfilled {
			p.Line("not run: %s", terminal.Clean(err.Error()))
		}
		if r.Missing > int64(r.BackfilledNow+len(r.NotBackfilled)) {
			p.Line("run it again for the rest")
		}
	}
	return p.Err()
}

func printFindings(cmd *cobra.Command, r *app.AuditResult) error {
	rows := [][]string{}
	for _, f := range r.Findings[:min(len(r.Findings), maxPrinted)] {
		name := f.Name
		if name == "" {
			name = job.FormatJobID(f.Job)
		}
		rows = append(rows, []string{
			string(f.Kind), terminal.Clean(r.Namespaces[f.Namespace]), terminal.Clean(name), terminal.Time(&f.DueAt, nil),
		})
	}
	if len(rows) == 0 {
		return nil
	}
	return terminal.WriteTable(cmd.OutOrStdout(), []string{"FOUND", "NAMESPACE", "JOB", "DUE UTC"}, rows)
}
