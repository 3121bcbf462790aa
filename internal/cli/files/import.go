package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/cli/yamljson"
	"github.com/belfry-dev/belfry/internal/crontab"
)

func newImport() *cobra.Command {
	return remote.Flags(usage.Group(&cobra.Command{
		Use: "import", Short: "Take over jobs from elsewhere",
		Example: `  crontab -l | belfry import crontab - --url https://runner.example.com/run --dry-run`,
	}, newImportCrontab()))
}

type importFlags struct {
	url, zone, prefix string
	system, dryRun    bool
}

func newImportCrontab() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use: "crontab FILE", Short: "Create jobs from the lines of a crontab", Args: usage.Args(1, 1),
		Long: `Create a job for each line of a crontab, or report why that is not possible.
FILE is a user's crontab, /etc/crontab or a file of /etc/cron.d (--system for
copies of those), or - for the standard input.

Each job calls --url, and the command is in its payload: {"command", "stdin",
"user", "environment"}. The server at that URL has to run it. In the URL,
{name} and {user} stand for those of the job.

The comment above a line is the job's name; without one, it is the program's
name. CRON_TZ is the zone of the lines below it; without one it is --tz.
RANDOM_DELAY becomes jitter.
A line that was imported before is changed only if it differs.`,
		Example: `  belfry import crontab /etc/crontab --url https://runner.example.com/run --dry-run >jobs.yaml
  crontab -l | belfry import crontab - --url 'https://runner.example.com/{name}' --tz Europe/Berlin
  belfry import crontab /etc/cron.d/backup --url http://localhost:9000/ --prefix web1-`,
		RunE: func(cmd *cobra.Command, args []string) error {
			tab, jobs, err := f.read(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			if f.dryRun {
				err = writeJobs(cmd.OutOrStdout(), jobs)
			} else {
				err = remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
					return applyAll(ctx, r, jobs)
				})(cmd, args)
			}
			if err != nil {
				return err
			}
			return reportCrontab(cmd.ErrOrStderr(), tab, len(jobs))
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.url, "url", "", "where the runs go; {name} and {user} are filled in")
	fl.StringVar(&f.zone, "tz", "UTC", "IANA zone of lines without CRON_TZ: that of the machine which cron runs on")
	fl.StringVar(&f.prefix, "prefix", "", "begins the name of each job")
	fl.BoolVar(&f.system, "system", false, "the file has users before the commands, as /etc/crontab has")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print the jobs as YAML for belfry apply, and send nothing")
	return cmd
}

// read converts a crontab to jobs.
func (f *importFlags) read(stdin io.Reader, file string) (*crontab.Crontab, []Job, error) {
	if f.url == "" {
		return nil, nil, usage.Errorf("where do the runs go? --url URL;" +
			" the commands are sent there. Jobs of kind command run programs on the nodes, see docs/guide/commands.md")
	}
	if _, err := time.LoadLocation(f.zone); err != nil {
		return nil, nil, usage.Errorf("--tz %s: there is no such zone; use an IANA name such as Europe/Berlin", f.zone)
	}
	from, err := open(stdin, file)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = from.Close() }()
	abs, _ := filepath.Abs(file) // only compared, never opened
	system := f.system || abs == "/etc/crontab" || filepath.Dir(abs) == "/etc/cron.d"
	tab, err := crontab.Parse(from, system, f.zone)
	if errors.Is(err, crontab.ErrForm) {
		return nil, nil, usage.Errorf("%v; use --system", err)
	}
	if err != nil {
		return nil, nil, err
	}
	var jobs []Job
	for line, j := range (crontab.Options{URL: f.url, Prefix: f.prefix}).Jobs(tab) {
		raw, err := j.JSON()
		if err != nil {
			return nil, nil, err
		}
		jobs = append(jobs, Job{Name: j.Name, At: fmt.Sprintf("crontab line %d", line), Raw: raw})
	}
	return tab, jobs, nil
}

// writeJobs prints jobs in the form that belfry apply reads.
func writeJobs(w io.Writer, jobs []Job) error {
	var b bytes.Buffer
	for i, j := range jobs {
		if i > 0 {
			b.WriteString("---\n")
		}
		text, err := yamljson.ToYAML(j.Raw)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "# %s\n%s", j.At, text)
	}
	_, err := b.WriteTo(w)
	return err
}

// reportCrontab prints what was not imported.
func reportCrontab(w io.Writer, c *crontab.Crontab, taken int) error {
	for _, n := range c.Notes {
		_, _ = fmt.Fprintln(w, n)
	}
	for _, no := range c.Refused {
		_, _ = fmt.Fprintf(w, "line %d: not taken: %s\n    %s\n", no.Line, no.Reason, no.Text)
	}
	if len(c.Refused) > 0 {
		return fmt.Errorf("%d lines were taken and %d were not", taken, len(c.Refused))
	}
	return nil
}
