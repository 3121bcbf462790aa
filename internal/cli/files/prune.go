package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/problem"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// setLabel marks the jobs that belfry apply --set created or changed, so that --prune deletes no other.
const setLabel = "belfry.set"

// errOwned keeps a forgotten or wrong --set from removing or changing the mark. The set that loses it would never delete
// the job with --prune, and the set that gains it might.
var errOwned = errors.New("the job belongs to another set of files, as its label " + setLabel +
	" says: repeat with --set and that name, or relabel the job first")

// pruning holds the flags of apply that delete jobs.
type pruning struct {
	set        string
	prune, yes bool
}

// flags adds the flags to apply or diff.
func (p *pruning) flags(cmd *cobra.Command, prune string) {
	cmd.Flags().StringVar(&p.set, "set", "", "mark the jobs as owned by this set of files, with the label "+setLabel)
	cmd.Flags().BoolVar(&p.prune, "prune", false, prune+" the jobs of --set that are in no file any more")
}

// read reads the files, marks their jobs and lists those of the set that are in no file.
func (p *pruning) read(
	ctx context.Context, r *remote.Server, files []string,
) (jobs []Job, gone []obsoleteJob, err error) {
	if p.prune && p.set == "" {
		return nil, nil, usage.Errorf("--prune needs --set NAME, which marks the jobs that the files own;" +
			" a job without the mark is never deleted")
	}
	if jobs, err = readAll(r.Cmd, files); err != nil {
		return nil, nil, err
	}
	if err := p.mark(jobs); err != nil {
		return nil, nil, err
	}
	gone, err = p.obsolete(ctx, r, jobs)
	return jobs, gone, err
}

// apply applies jobs and then deletes those of the set that are in no file. It asks before it changes anything.
func (p *pruning) apply(ctx context.Context, r *remote.Server, files []string) error {
	jobs, gone, err := p.read(ctx, r, files)
	if err != nil {
		return err
	}
	if err := p.confirm(r, gone); err != nil {
		return err
	}
	if err := applyAll(ctx, r, jobs); err != nil {
		return err
	}
	return deleteAll(ctx, r, gone)
}

// mark adds the label of the set to jobs.
func (p *pruning) mark(jobs []Job) error {
	if p.set == "" {
		return nil
	}
	for i := range jobs {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(jobs[i].Raw, &fields); err != nil {
			return fmt.Errorf("%s: %w", jobs[i].At, err)
		}
		labels := map[string]json.RawMessage{}
		if raw, ok := fields["labels"]; ok {
			if err := json.Unmarshal(raw, &labels); err != nil {
				return fmt.Errorf("%s: labels: %w", jobs[i].At, err)
			}
		}
		labels[setLabel] = json.RawMessage(strconv.Quote(p.set))
		var err error
		if fields["labels"], err = json.Marshal(labels); err != nil {
			return err
		}
		if jobs[i].Raw, err = json.Marshal(fields); err != nil {
			return err
		}
	}
	return nil
}

// obsoleteJob is a job that will be deleted, as it was listed.
type obsoleteJob struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Version int32  `json:"version"`
}

// obsolete lists the jobs of the set that the files no longer have.
func (p *pruning) obsolete(ctx context.Context, r *remote.Server, jobs []Job) (gone []obsoleteJob, err error) {
	if !p.prune {
		return nil, nil
	}
	kept := map[string]bool{}
	for _, j := range jobs {
		kept[j.Name] = true
	}
	query := url.Values{"label": {setLabel + "=" + p.set}, "page_size": {strconv.Itoa(remote.MaxPage)}}
	for raw, err := range r.List(ctx, "/jobs", query) {
		if err != nil {
			return nil, err
		}
		var found obsoleteJob
		if err := json.Unmarshal(raw, &found); err != nil {
			return nil, err
		}
		if !kept[found.Name] {
			gone = append(gone, found)
		}
	}
	return gone, nil
}

// confirm shows what will be deleted and asks, unless --yes was given.
func (p *pruning) confirm(r *remote.Server, gone []obsoleteJob) error {
	if len(gone) == 0 || p.yes {
		return nil
	}
	for _, j := range gone {
		r.Note("%s %s", planned[deleted], j.Name)
	}
	return r.Confirm("delete " + problem.Count(len(gone), "job"))
}

// deleteAll deletes the obsolete jobs, each only if it is still as it was listed.
func deleteAll(ctx context.Context, r *remote.Server, gone []obsoleteJob) error {
	for i, j := range gone {
		err := r.Call(ctx, belfry.Request{
			Method: http.MethodDelete, Path: remote.JobPath(j.ID),
			Header: map[string]string{"If-Match": belfry.IfMatch(j.Version)},
		}, nil)
		if err != nil {
			return fmt.Errorf("%s (%d of %d are deleted): %w", j.Name, i, len(gone), err)
		}
		r.Line("%s %s", styled(deleted), terminal.Clean(j.Name))
	}
	return nil
}
