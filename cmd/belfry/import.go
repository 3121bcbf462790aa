package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

func newImport() *cobra.Command {
	return remoteFlags(group(&cobra.Command{
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
		Use: "crontab FILE", Short: "Make jobs of the lines of a crontab", Args: wants(1, 1),
		Long: `Make a job of each line of a crontab, or say why it cannot be taken. FILE is a
user's crontab, /etc/crontab or a file of /etc/cron.d (--system for copies of
those), or - for the standard input.

Belfry runs no commands by itself yet. Each job calls --url, and the command is in
its payload: {"command", "stdin", "user", "environment"}. What answers there has
to run it. In the URL, {name} and {user} stand for those of the job.

A job's name is made of the comment above its line, else of the command. CRON_TZ is
the zone of the lines below it; without one it is --tz. RANDOM_DELAY becomes jitter.
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
				err = with(func(ctx context.Context, r *remote, _ []string) error { return r.applyAll(ctx, jobs) })(cmd, args)
			}
			if err != nil {
				return err
			}
			return tab.report(cmd.ErrOrStderr(), len(jobs))
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

// read makes jobs of a crontab.
func (f *importFlags) read(stdin io.Reader, file string) (*crontab, []fileJob, error) {
	if f.url == "" {
		return nil, nil, usagef("where do the runs go? --url URL; Belfry runs no commands by itself yet, and sends them there")
	}
	from := stdin
	if file != "-" {
		opened, err := os.Open(file) //nolint:gosec // the file that the user names
		if err != nil {
			return nil, nil, err
		}
		defer func() { _ = opened.Close() }()
		from = opened
	}
	abs, _ := filepath.Abs(file) // only to be looked at
	system := f.system || abs == "/etc/crontab" || filepath.Dir(abs) == "/etc/cron.d"
	tab, err := parseCrontab(from, system, f.zone)
	if err != nil {
		return nil, nil, err
	}
	var jobs []fileJob
	seen := map[string]int{}
	for _, e := range tab.entries {
		name := f.prefix + e.name()
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s-%d", name, seen[name])
		}
		raw, err := json.Marshal(f.job(name, e))
		if err != nil {
			return nil, nil, err
		}
		jobs = append(jobs, fileJob{name, fmt.Sprintf("crontab line %d", e.line), raw})
	}
	return tab, jobs, nil
}

// importedJob has the fields of the API that an entry needs, in their order.
type importedJob struct {
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels"`
	Schedule any               `json:"schedule"`
	Target   struct {
		Kind   string            `json:"kind"`
		Config map[string]string `json:"config"`
	} `json:"target"`
	Payload struct {
		Command     string            `json:"command"`
		Stdin       string            `json:"stdin,omitempty"`
		User        string            `json:"user,omitempty"`
		Environment map[string]string `json:"environment,omitempty"`
	} `json:"payload"`
	Overlap string `json:"overlap"`
}

func (f *importFlags) job(name string, e cronEntry) importedJob {
	j := importedJob{Name: name, Schedule: e.spec, Labels: map[string]string{"source": "crontab"}}
	if e.user != "" {
		j.Labels["user"] = e.user
	}
	if comment := []rune(e.comment); len(comment) > 0 {
		j.Labels["comment"] = string(comment[:min(len(comment), 200)])
	}
	j.Target.Kind = "http"
	j.Target.Config = map[string]string{"url": strings.NewReplacer("{name}", url.PathEscape(name), "{user}", url.PathEscape(e.user)).Replace(f.url)}
	j.Payload.Command, j.Payload.Stdin, j.Payload.User, j.Payload.Environment = e.command, e.stdin, e.user, e.env
	j.Overlap = "allow" // as cron does
	return j
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// name is that of the comment, else of the program that is called.
func (e *cronEntry) name() string {
	const most = 60
	text := e.comment
	if text == "" {
		for _, word := range strings.Fields(e.command) {
			if !strings.Contains(word, "=") { // variables before the program
				text = strings.TrimSuffix(path.Base(word), path.Ext(word))
				break
			}
		}
	}
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if len(name) > most {
		name = strings.TrimRight(name[:most], "-")
	}
	return first(name, "job")
}

// writeJobs prints jobs as belfry apply reads them.
func writeJobs(w io.Writer, jobs []fileJob) error {
	var b bytes.Buffer
	for i, j := range jobs {
		if i > 0 {
			b.WriteString("---\n")
		}
		text, err := yamlOf(j.raw)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "# %s\n%s", j.at, text)
	}
	_, err := b.WriteTo(w)
	return err
}

// report tells what of a crontab was not taken.
func (c *crontab) report(w io.Writer, taken int) error {
	for _, n := range c.notes {
		_, _ = fmt.Fprintln(w, n)
	}
	for _, no := range c.refused {
		_, _ = fmt.Fprintf(w, "line %d: not taken: %s\n    %s\n", no.line, no.reason, no.text)
	}
	if len(c.refused) > 0 {
		return fmt.Errorf("%d lines were taken and %d were not", taken, len(c.refused))
	}
	return nil
}
