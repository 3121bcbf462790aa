package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// told is an error in words of the command line.
type told struct {
	text string
	error
}

func (t told) Error() string { return t.text }
func (t told) Unwrap() error { return t.error }

// explain makes errors say what to do. args are those of the command.
func (r *remote) explain(err error, args []string) error {
	var failed *url.Error
	var opErr *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &told{}): // where more was known
		return err
	case belfry.CodeOf(err) == "not_found":
		return r.missing(err, args)
	case belfry.CodeOf(err) == "unauthenticated":
		return told{fmt.Sprintf("%s does not take the key from %s (%s); belfry login saves another, and an admin makes one with belfry key create", r.Server, r.from, detailOf(err)), err}
	case !errors.As(err, &failed):
		return err
	case errors.As(err, &opErr) && opErr.Op == "dial":
		return told{fmt.Sprintf("cannot reach %s (%v); is the server running, and is the URL right?", r.Server, opErr.Err), err}
	case failed.Timeout():
		return told{r.Server + " did not answer in time; what was asked may have happened all the same", err}
	case errors.Is(err, http.ErrSchemeMismatch):
		return told{r.Server + " does not speak TLS; begin the URL with http://", err}
	}
	return told{fmt.Sprintf("%s: %v", r.Server, failed.Err), err}
}

// detailOf is what the server said of a problem.
func detailOf(err error) string {
	var p *belfry.Problem
	if errors.As(err, &p) {
		return p.Detail
	}
	return err.Error()
}

// finder is where things are listed, by what Use calls them.
var finder = map[string]string{
	"JOB":       "belfry job list shows those that are there; a deleted one is found by its id alone, job_…",
	"RUN":       "is the id whole? belfry run list shows them",
	"QUEUE":     "belfry queue list shows those that are there; the first job that names one makes it",
	"KEY":       "belfry key list shows their ids, key_…",
	"SECRET":    "belfry secret list shows those that are there",
	"OPERATION": "is the id whole? The command that began it printed it",
}

// missing says what is not there: the first argument, or what --job names.
func (r *remote) missing(err error, args []string) error {
	_, noun, _ := strings.Cut(r.cmd.Use, " ")
	noun, _, _ = strings.Cut(strings.Trim(noun, "[]."), " ")
	if f := r.cmd.Flags().Lookup("job"); f != nil && f.Changed {
		noun, args = "JOB", []string{f.Value.String()}
	}
	help, known := finder[noun]
	if !known || len(args) == 0 {
		return err
	}
	return told{fmt.Sprintf("there is no %s %s in your namespace; %s", strings.ToLower(noun), args[0], help), err}
}

// hopeless says that the next request would fail as this one did: the server is
// not there, or does not take the key, or cannot work.
func hopeless(err error) bool {
	var p *belfry.Problem
	if !errors.As(err, &p) {
		var failed *url.Error
		return errors.As(err, &failed)
	}
	return p.Status >= 500 || p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden || p.Status == http.StatusTooManyRequests || p.Code == "unknown"
}
