package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func newJobVersions() *cobra.Command {
	cmd := &cobra.Command{
		Use: "versions JOB", Short: "List the versions of a job, the newest first", Args: usage.Args(1, 1),
		Long: `List the versions of a job, the newest first. Each change of the definition is a
version. With --show, print the definition of one.`,
		Example: `  belfry job versions report
  belfry job versions report --show 3`,
	}
	f := cmd.Flags()
	limit := remote.LimitFlag(f)
	show := f.Int("show", 0, "print the definition of this version")
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
		path := remote.JobPath(args[0]) + "/versions"
		if f.Changed("show") {
			raw, err := r.Get(ctx, path+"/"+strconv.Itoa(*show), nil)
			if err != nil {
				return err
			}
			return r.Show(raw, func() error { return terminal.WriteData(r.Out, "yaml", raw) })
		}
		type version struct {
			Version   int32      `json:"version"`
			CreatedAt *time.Time `json:"created_at"`
			CreatedBy string     `json:"created_by"`
		}
		return remote.List(ctx, r, remote.Listing{
			Path: path, Limit: *limit, Headers: []string{"VERSION", "SINCE UTC", "BY"}, None: "no versions",
		}, func(v version) []string {
			return []string{strconv.Itoa(int(v.Version)), terminal.Time(v.CreatedAt, nil), terminal.Clean(v.CreatedBy)}
		})
	})
	return cmd
}

func newJobRollback() *cobra.Command {
	var to int
	cmd := &cobra.Command{
		Use: "rollback JOB --to VERSION", Short: "Restore an earlier version of a job", Args: usage.Args(1, 1),
		Long: `Restore an earlier version of a job. Its definition becomes a new version. If the
job has changed in the meantime, nothing is restored.`,
		Example: `  belfry job versions report
  belfry job rollback report --to 3`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			if r.Cmd.Flags().Changed("to") && to < 1 {
				return usage.Errorf("--to %d is no version; they begin with 1, and belfry job versions %s lists them",
					to, args[0])
			}
			if to < 1 {
				return usage.Errorf("which version? Use --to; belfry job versions %s lists them", args[0])
			}
			before, err := r.Get(ctx, remote.JobPath(args[0]), nil)
			if err != nil {
				return err
			}
			j, err := terminal.Decode[jobView](before)
			if err != nil {
				return err
			}
			var raw []byte
			err = r.Call(ctx, belfry.Request{
				Method: http.MethodPost, Path: remote.JobPath(j.ID) + ":rollback", Body: map[string]int{"version": to},
				Header: map[string]string{"If-Match": belfry.IfMatch(j.Version)},
			}, &raw)
			if belfry.CodeOf(err) == "not_found" { // the job was read above, so its version is missing
				return remote.Explained(err, "%s has no version %d; belfry job versions %s lists them",
					j.Name, to, shellQuote(j.Name))
			}
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				now, err := terminal.Decode[jobView](raw)
				if err != nil {
					return err
				}
				if now.Version == j.Version {
					r.Line("%s %s %s", terminal.Faint.Render("unchanged"), now.Name,
						terminal.Faint.Render(fmt.Sprintf("version %d", now.Version)))
					return nil
				}
				r.Line("%s version %d of %s as version %d", terminal.Yellow.Render("restored"), to, now.Name, now.Version)
				return nil
			})
		}),
	}
	cmd.Flags().IntVar(&to, "to", 0, "the version to restore")
	return cmd
}

func newJobRestore() *cobra.Command {
	var active, allowPast bool
	cmd := &cobra.Command{
		Use: "restore JOB", Short: "Create a deleted job again", Args: usage.Args(1, 1),
		Long: `Create a deleted job again, as its last version was. Name it by its id, which
belfry audit list --object NAME -o wide shows. The new job has an id of its own.
It is paused right after it is created, because the deleted one may have been paused.`,
		Example: `  belfry job restore job_06f8m2tq5dtk1e7n9q0c3s5v7g`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			definition, err := lastDefinition(ctx, r, args[0])
			if err != nil {
				return err
			}
			d, err := terminal.Decode[struct {
				Schedule struct{ At, Timezone string } `json:"schedule"`
			}](definition)
			if err != nil {
				return err
			}
			if at := d.Schedule.At; !allowPast && at != "" && hasPassed(at, d.Schedule.Timezone) {
				return usage.Errorf("its time, %s, has passed, so it would run immediately; --allow-past if you mean it", at)
			}
			raw, err := r.Post(ctx, "/jobs", definition)
			if err != nil {
				return err
			}
			j, err := terminal.Decode[jobView](raw)
			if err != nil {
				return err
			}
			done := terminal.Green.Render("created")
			if active {
				return r.ShowDone(raw, done, j.Name)
			}
			if raw, err = r.Post(ctx, remote.JobPath(j.ID)+":pause", map[string]string{"note": "restored"}); err != nil {
				return fmt.Errorf("the job %s was created and is active, but could not be paused: %w", j.Name, err)
			}
			return r.ShowDone(raw, done, j.Name+", paused; start it with: belfry job resume "+shellQuote(j.Name))
		}),
	}
	cmd.Flags().BoolVar(&active, "active", false, "do not pause it")
	cmd.Flags().BoolVar(&allowPast, "allow-past", false, "restore a one-off even if its time has passed")
	return cmd
}

// lastDefinition reads the definition of a job's newest version, even if the job was deleted.
func lastDefinition(ctx context.Context, r *remote.Server, id string) (json.RawMessage, error) {
	path := remote.JobPath(id) + "/versions"
	raw, err := r.Get(ctx, path, url.Values{"page_size": {"1"}})
	if err != nil {
		return nil, err
	}
	page, err := terminal.Decode[struct {
		Items []struct{ Version int } `json:"items"`
	}](raw)
	if err != nil || len(page.Items) == 0 {
		return nil, cmp.Or(err, errors.New("no version of it is kept"))
	}
	if raw, err = r.Get(ctx, path+"/"+strconv.Itoa(page.Items[0].Version), nil); err != nil {
		return nil, err
	}
	last, err := terminal.Decode[struct {
		Definition json.RawMessage `json:"definition"`
	}](raw)
	return last.Definition, err
}
