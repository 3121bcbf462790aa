package job

import (
	"encoding/json"
	"errors"
	"regexp"
)

// Workers are users' own processes that pull runs. This file has their names and limits; session.go has their
// sessions and leases, and pull.go which worker gets which run.

// Limits that a node has reached for now. The worker should try again, on this or another node.
var (
	ErrTooManyWorkers  = errors.New("too many workers wait on this node")
	ErrTooManyHandlers = errors.New("workers wait on this node for too many handlers of the queue or its namespace")
	ErrTooManyReports  = errors.New("too many reports wait on this node to be written")
	// ErrTooManySessions is a limit of the namespace, on all nodes.
	ErrTooManySessions = errors.New("too many sessions of workers of the namespace have just ended")
	// ErrAdopting says that the locks of a session to adopt were not free in time.
	ErrAdopting = errors.New("another request is using the session to adopt")
)

// WorkerKind is the kind of target whose runs workers pull.
const WorkerKind = "worker"

// Limits of workers.
const (
	MaxHandlers = 100      // of one claim
	MaxNoted    = 500      // handlers of a session that are stored
	MaxReports  = 1000     // outcomes in one request
	MaxResult   = 16 << 10 // bytes of a result
	MaxMessage  = 4 << 10  // bytes of a message
	MaxProgress = 500      // bytes of a progress text
	MaxSnooze   = 30 * day // from now
)

// MaxClaimBytes is the maximum size of all payloads in one claim. Runs over it are left for the next claim. It is
// many times the maximum of one payload.
const MaxClaimBytes = 8 << 20

var handlerForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$`)

// ValidHandler reports whether name is a valid name of a handler.
func ValidHandler(name string) bool { return handlerForm.MatchString(name) }

// Handler returns the name by which workers know jobs of this target. It is empty for other kinds of targets, to
// which nodes deliver.
func (t Target) Handler() string {
	if t.Kind != WorkerKind {
		return ""
	}
	var c struct {
		Handler string `json:"handler"`
	}
	if json.Unmarshal(t.Config, &c) != nil {
		return ""
	}
	return c.Handler
}
