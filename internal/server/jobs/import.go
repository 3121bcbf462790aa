package jobs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/crontab"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// importLimits bound the answer, which can be much larger than the crontab.
var importLimits = crontab.Limits{Entries: maxBulkLines, Payload: job.MaxPayload, Bytes: 8 << 20}

func (h *Handlers) registerImport() {
	rest.Register(h.api, rest.Operation{
		ID: "import-crontab", Route: "POST /imports:crontab", Summary: "Convert a crontab to jobs",
		Description: "The body is a crontab. The response has a job for each line that can be one, as create-job and " +
			"POST /jobs:diff take it, and the reason for each that cannot. Nothing is saved.\n\n" +
			"Each job calls the url, with the command in its payload. The comment above a line is the name of the job, " +
			"else the name of the program. CRON_TZ is the time zone of the lines below it, RANDOM_DELAY becomes jitter.\n\n" +
			fmt.Sprintf("Each job has all variables above its line. A crontab may become at most %d jobs and %d MB; send a "+
				"larger one in parts. A node processes few of these requests at the same time, and fewer of one key: after "+
				"429 or 503, retry later.", importLimits.Entries, importLimits.Bytes>>20),
		Role: access.Viewer, TooLarge: "a crontab may have 1 MB; send it in parts",
		Enter: h.bulks.Enter, Describe: describeCrontab,
	}, h.importCrontab)
}

// describeCrontab describes the body, which huma knows only as bytes.
func describeCrontab(_ *huma.OpenAPI, o *huma.Operation) {
	o.RequestBody.Content["text/plain"] = &huma.MediaType{
		Schema:  &huma.Schema{Type: huma.TypeString, MinLength: ptr(1), Description: "A crontab."},
		Example: "# Nightly backup\n30 2 * * * /usr/local/bin/backup.sh\n",
	}
}

type importCrontabInput struct {
	URL      string `query:"url" required:"true" maxLength:"2000" doc:"{name} and {user} are filled in." example:"http://127.0.0.1/{name}"`
	Timezone string `query:"timezone" maxLength:"64" default:"UTC" doc:"IANA zone of lines without CRON_TZ." example:"Europe/Berlin"`
	Prefix   string `query:"prefix" maxLength:"100" doc:"Begins the name of each job."`
	System   bool   `query:"system" doc:"The lines have users before the commands, as in /etc/crontab."`
	RawBody  []byte `contentType:"text/plain"`
}

// CrontabImport has the jobs of a crontab.
type CrontabImport struct {
	Jobs     []JobInput    `json:"jobs" doc:"In the order of the lines."`
	Lines    []int         `json:"lines" doc:"Line number of each job, from 1, in the order of jobs."`
	Problems []LineProblem `json:"problems" doc:"Lines that are no job."`
	Notes    []string      `json:"notes" doc:"What was left out, for people."`
}

// LineProblem says why a line is no job.
type LineProblem struct {
	Line    int    `json:"line" doc:"Line number, from 1."`
	Text    string `json:"text" doc:"The line."`
	Problem string `json:"problem" doc:"What is wrong with it."`
}

type importCrontabOutput struct {
	Body CrontabImport
}

func (h *Handlers) importCrontab(_ context.Context, in *importCrontabInput) (*importCrontabOutput, error) {
	if _, err := time.LoadLocation(in.Timezone); err != nil {
		return nil, problem.New("timezone", "there is no such zone", "use an IANA name such as Europe/Berlin")
	}
	tab, err := crontab.ParseWithin(bytes.NewReader(in.RawBody), in.System, in.Timezone, importLimits)
	if err != nil {
		return nil, crontabProblem(err)
	}
	out := &importCrontabOutput{}
	out.Body.Jobs, out.Body.Lines, out.Body.Notes = []JobInput{}, []int{}, append([]string{}, tab.Notes...)
	size := 0
	for line, j := range (crontab.Options{URL: in.URL, Prefix: in.Prefix}).Jobs(tab) {
		text, err := j.JSON()
		if err != nil {
			return nil, err
		}
		var input JobInput
		if err := decodeStrictly(text, &input); err != nil {
			return nil, err
		}
		if err := importLimits.CheckPayload(len(input.Payload)); err != nil {
			tab.Refused = append(tab.Refused, crontab.Refusal{Line: line, Text: j.Payload.Command, Reason: err.Error()})
			continue
		}
		if size += len(text); importLimits.CheckBytes(line, size) != nil {
			return nil, crontabProblem(importLimits.CheckBytes(line, size))
		}
		out.Body.Jobs, out.Body.Lines = append(out.Body.Jobs, input), append(out.Body.Lines, line)
	}
	slices.SortStableFunc(tab.Refused, func(a, b crontab.Refusal) int { return cmp.Compare(a.Line, b.Line) })
	out.Body.Problems = rest.Map(tab.Refused, func(r crontab.Refusal) LineProblem {
		return LineProblem{Line: r.Line, Text: rest.Printable(r.Text), Problem: r.Reason}
	})
	return out, nil
}

// crontabProblem says why a crontab cannot be converted.
func crontabProblem(err error) error {
	switch {
	case errors.Is(err, crontab.ErrForm):
		return problem.New("system", err.Error(), "send system=true")
	case errors.Is(err, crontab.ErrTooLarge):
		return rest.NewProblem("too_large", err.Error())
	}
	return rest.NewProblem("bad_request", "the crontab cannot be read: "+err.Error())
}
