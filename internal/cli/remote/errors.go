package remote

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// explained is an error whose text already says what to do at the command line.
type explained struct {
	text string
	error
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.error }

// Explained replaces the text of an error. Explain leaves such an error as it is.
func Explained(err error, format string, args ...any) error {
	return explained{fmt.Sprintf(format, args...), err}
}

func isExplained(err error) bool {
	_, ok := errors.AsType[explained](err)
	return ok
}

// Explain makes an error say what to do. args are the arguments of the command.
func (r *Server) Explain(err error, args []string) error {
	var failed *url.Error
	var opErr *net.OpError
	server := r.login.Server
	switch {
	case err == nil:
		return nil
	case isExplained(err): // a caller that knew more explained it
		return err
	case belfry.CodeOf(err) == "not_found":
		return r.missing(err, args)
	case belfry.CodeOf(err) == "unauthenticated":
		return Explained(err, "%s rejects the key from %s (%s);"+
			" belfry login saves another, and an admin makes one with belfry key create",
			server, r.login.From, detail(err))
	case !errors.As(err, &failed):
		return err
	case errors.As(err, &opErr) && opErr.Op == "dial":
		return Explained(err, "cannot reach %s (%v); is the server running, and is the URL right?", server, opErr.Err)
	case failed.Timeout():
		return Explained(err, "%s did not answer in time; what was asked may have happened all the same", server)
	case errors.Is(err, http.ErrSchemeMismatch):
		return Explained(err, "%s does not speak TLS; begin the URL with http://", server)
	}
	return Explained(err, "%s: %v", server, failed.Err)
}

// detail returns the server's own description of a problem.
func detail(err error) string {
	if p, ok := errors.AsType[*belfry.Problem](err); ok {
		return p.Detail
	}
	return err.Error()
}

// whereToLook says how to find what is missing, by the name of the argument in Use.
var whereToLook = map[string]string{
	"JOB":       "belfry job list shows the jobs; belfry audit list --object NAME -o wide shows the id of a deleted one",
	"RUN":       "is the id whole? belfry run list shows them",
	"QUEUE":     "belfry queue list shows the queues; the first job that names a queue creates it",
	"KEY":       "belfry key list shows their ids, key_…",
	"SECRET":    "belfry secret list shows those that are there",
	"OPERATION": "is the id whole? belfry operation list shows them",
}

// missing explains not_found: it names the first argument, or the value of --job.
func (r *Server) missing(err error, args []string) error {
	noun, _ := Noun(r.Cmd.Use)
	if f := r.Cmd.Flags().Lookup("job"); f != nil && f.Changed {
		noun, args = "JOB", []string{f.Value.String()}
	}
	help, known := whereToLook[noun]
	if !known || len(args) == 0 {
		return err
	}
	if noun == "JOB" && strings.HasPrefix(args[0], "job_") {
		help = "if it was deleted, belfry job versions and belfry job runs still show what is kept of it," +
			" and belfry job restore creates it again"
	}
	return Explained(err, "there is no %s %s in your namespace; %s", strings.ToLower(noun), args[0], help)
}

// Noun returns what Use calls the first argument of a command, such as JOB, and whether the command
// takes several of them.
func Noun(use string) (noun string, several bool) {
	_, noun, _ = strings.Cut(use, " ")
	noun, _, _ = strings.Cut(strings.Trim(noun, "[]"), " ")
	noun, _, _ = strings.Cut(noun, "|")
	several = strings.HasSuffix(noun, "...")
	return strings.TrimRight(noun, ".]"), several
}

// IsHopeless reports whether the next request would fail in the same way: the server is down, does not
// accept the key, or cannot work.
func IsHopeless(err error) bool {
	p, ok := errors.AsType[*belfry.Problem](err)
	if !ok {
		_, failed := errors.AsType[*url.Error](err)
		return failed
	}
	switch p.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	}
	return p.Status >= 500 || p.Code == "unknown"
}
