package target

import (
	"context"
	"errors"
	"regexp"
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/http"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// runToken is a token with which a receiver reports, whole or cut off.
var runToken = regexp.MustCompile(regexp.QuoteMeta(access.ReportPrefix) + `[0-9a-v]+`)

// Redactor removes secrets from what receivers report on the runs that they accepted.
type Redactor struct {
	Targets map[string]Target
	Secrets *secret.Cache
	// Reported returns the target of the run that a report is about.
	Reported func(ctx context.Context, r access.Report) (job.Target, error)
}

// Redact removes the secrets of the run's target, also in base64, and tokens of runs, from the text of a report. If it
// cannot know the secrets, the result does not have the text.
func (d *Redactor) Redact(ctx context.Context, r access.Report, text string) (string, error) {
	of, err := d.Reported(ctx, r)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return "", nil // the run has ended, so the report changes nothing
	case err != nil:
		return "", err
	}
	values, known := d.values(ctx, r.Namespace, of)
	if !known {
		return "the report had a message, which is not stored because the secrets of the job could not be read", nil
	}
	forms := secret.Forms(append(values, secret.Base64(values)...))
	return secret.Redact(runToken.ReplaceAllString(text, "[hidden]"), forms), nil
}

// values returns the secrets of a target. The cache logs why it cannot read one.
func (d *Redactor) values(ctx context.Context, namespace uuid.UUID, of job.Target) (all []string, known bool) {
	t, known := d.Targets[of.Kind]
	if !known {
		return nil, false
	}
	uses := t.Uses(of.Config)
	read := func(names []string, forms func(value string) []string) {
		for _, name := range names {
			values, err := d.Secrets.Values(ctx, namespace, name)
			if err != nil && !errors.Is(err, secret.ErrNone) {
				known = false
			}
			for _, value := range values {
				all = append(all, forms(value)...)
			}
		}
	}
	read(slices.Concat(uses.Names, uses.InHeader), func(value string) []string { return []string{value} })
	read(uses.InURL, http.URLForms)
	return all, known
}
