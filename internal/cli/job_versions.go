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
	return &cobra.Command{
		Use: "restore JOB", Short: "Create a deleted job again", Args: usage.Args(1, 1),
		Long: `Create a deleted job again, as its last version was. Name it by its id, which
belfry audit list --object NAME -o wide shows. The new job has an id of its own.`,
		Example: `  belfry job restore job_06f8m2tq5dtk1e7n9q0c3s5v7g`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			path := remote.JobPath(args[0]) + "/versions"
			raw, err := r.Get(ctx, path, url.Values{"page_size": {"1"}})
			if err != nil {
				return err
			}
			page, err := terminal.Decode[struct {
				Items []struct{ Version int } `json:"items"`
			}](raw)
			if err != nil || len(page.Items) == 0 {
				return cmp.Or(err, errors.New("no version of it is kept"))
			}
			if raw, err = r.Get(ctx, path+"/"+strconv.Itoa(page.Items[0].Version), nil); err != nil {
				return err
			}
			last, err := terminal.Decode[struct {
				Definition json.RawMessage `json:"definition"`
			}](raw)
			if err != nil {
				return err
			}
			if raw, err = r.Post(ctx, "/jobs", last.Definition); err != nil {
				return err
			}
			j, err := terminal.Decode[jobView](raw)
			if err != nil {
				return err
			}
			return r.ShowDone(raw, terminal.Green.Render("created"), j.Name)
		}),
	}
}
