package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/bench"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

// nodeSettings are the settings of nodes that affect what is measured.
var nodeSettings = []string{"slots", "connections", "look_ahead", "session_ttl"}

// benchFlags are the flags of all benchmarks.
type benchFlags struct {
	bench.Options
	output, html string
}

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure what a PostgreSQL carries", Args: noArgs,
		Example: `  belfry bench hot-second --jobs 50000
  belfry bench steady --rate 1000`,
		Long: `Measure what Belfry does on your own PostgreSQL: how late runs start when many
are due at once, how late in everyday traffic, and how many runs per second.

It creates a scratch database (belfry_bench_…) on the server of the URL, loads jobs
into it, starts nodes as processes of their own, with your settings, and drops the database at the
end, also after Ctrl-C. It touches nothing else; but it is a load on the server.
It ends with code 1 if a run was lost.`,
	}
	return usage.Group(cmd, newHotSecond(), newSteady(), newEngine(), newBenchNode(), newBenchSink())
}

func newHotSecond() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use: "hot-second", Short: "Many jobs due at one instant: how late do they start?", Args: noArgs,
		Long: `Measure jobs that are all due at one instant. They are planned before it, as
always; WAL and transactions include that, CPU is that of the drain alone.`,
		Example: `  belfry bench hot-second --jobs 50000
  belfry bench hot-second --jobs 50000 --target http --html hot.html
  belfry bench hot-second --jobs 500000 --nodes 2 -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, bench.HotSecond) },
	}
	f.add(cmd, 50_000)
	f.addTarget(cmd)
	return cmd
}

func newSteady() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use: "steady", Short: "Everyday traffic of many jobs: how late do they start?", Args: noArgs,
		Long: `Measure everyday traffic: of all jobs, as many as the rate are due each second.
Measuring begins when planning is well ahead and the first seconds have run.
Each job is due once in jobs/rate seconds, rounded to whole seconds.`,
		Example: `  belfry bench steady --jobs 1000000 --rate 1000
  belfry bench steady --jobs 100000 --rate 500 --duration 30s --target http
  belfry bench steady --jobs 100000 --rate 1000 --schedules 10000 -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, bench.Steady) },
	}
	f.add(cmd, 1_000_000)
	f.addTarget(cmd)
	cmd.Flags().IntVar(&f.Rate, "rate", 1000, "runs due in each second")
	cmd.Flags().DurationVar(&f.Duration, "duration", 2*time.Minute, "how long is measured, in whole seconds")
	cmd.Flags().IntVar(&f.Schedules, "schedules", 0,
		"distinct schedules that the jobs share (default one for each second of jobs/rate)")
	return cmd
}

func newEngine() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use: "engine", Short: "A backlog at full speed: how many runs per second?", Args: noArgs,
		Long: `Measure how fast nodes work off a backlog of no-op runs: plan, claim and complete
all run at once, and history is kept. In turns with it, the same calls to the
database without an engine around them: two connections that plan, claim and
complete batches of about 1,000. The ratio is what the engine makes of it.`,
		Example: `  belfry bench engine
  belfry bench engine --jobs 1000000 --rounds 3 -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, bench.Engine) },
	}
	f.add(cmd, 200_000)
	f.Target = bench.Noop
	cmd.Flags().IntVar(&f.Rounds, "rounds", 2, "rounds of bare SQL and engine each, in turns")
	return cmd
}

func (f *benchFlags) add(cmd *cobra.Command, jobs int) {
	fl := cmd.Flags()
	databaseFlags(fl, nodeSettings...)
	fl.IntVar(&f.Jobs, "jobs", jobs, "registered jobs")
	fl.IntVar(&f.Nodes, "nodes", 1, "nodes, each a process")
	fl.BoolVar(&f.Keep, "keep", false, "keep the scratch database and print its name")
	fl.StringVarP(&f.output, "output", "o", "text", "text or json")
	fl.StringVar(&f.html, "html", "", "write a report with curves to this file")
	fl.StringVar(&f.Profile, "profile", "", "write the CPU profile of the node to this file")
	_ = fl.MarkHidden("profile") // fails only for an unknown flag
}

func (f *benchFlags) addTarget(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Target, "target", bench.Noop,
		"noop (nothing is delivered) or http (to a receiver on this machine)")
}

type benchmark func(context.Context, bench.Options) (*bench.Result, error)

func (f *benchFlags) run(cmd *cobra.Command, measure benchmark) error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("-o %s: use text or json", f.output)
	}
	v, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	warn(cmd, v)
	f.Node = v.Config
	f.Log = cmd.ErrOrStderr()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	result, err := measure(ctx, f.Options)
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return fmt.Errorf("interrupted: %w", err)
	case err != nil:
		return err
	}
	if f.html != "" {
		if err := writeReport(f.html, result); err != nil {
			return err
		}
	}
	write := result.Text
	if f.output == "json" {
		write = result.JSON
	}
	return errors.Join(write(cmd.OutOrStdout()), result.Err())
}

func writeReport(path string, r *bench.Result) (err error) {
	file, err := os.Create(path) //nolint:gosec // the user names it
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return r.HTML(file)
}
