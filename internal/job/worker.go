package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// What a node has too much of, for now.
var (
	ErrTooManyWorkers  = errors.New("too many workers wait on this node")
	ErrTooManyHandlers = errors.New("workers wait on this node for too many handlers of the queue")
	ErrTooManyReports  = errors.New("too many reports wait on this node to be written")
)

// What the store, the API and the loops say to each other about workers: users'
// processes that pull runs.

// WorkerKind is the kind of target whose runs workers pull.
const WorkerKind = "worker"

// The limits of workers.
const (
	MaxHandlers = 100      // that one worker knows
	MaxClaim    = 100      // runs in one answer
	MaxLeases   = 10_000   // runs of one session
	MaxReports  = 1000     // outcomes in one request
	MaxResult   = 16 << 10 // bytes of a result
	MaxMessage  = 4 << 10  // bytes of a message
	MaxProgress = 500      // characters of a progress text
	MaxSnooze   = 30 * day // from now
	snoozeLimit = int16(10_000)
)

// MaxClaimBytes is how many bytes of payload are claimed at once; what goes beyond is
// left for the next claim. It is many times what one run may have.
const MaxClaimBytes = 8 << 20

var handlerForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$`)

// ValidHandler says whether a text is the name of a handler.
func ValidHandler(name string) bool { return handlerForm.MatchString(name) }

// Handler is what workers know a job of this target by; empty: nodes deliver its
// runs.
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

// Feed is the runs of a queue that have one handler and one priority, by the
// time they may start. All that is due before the mark has been taken, as far as
// the node knows that has it.
type Feed struct {
	Queue    int32
	Handler  string
	Priority int16
	Mark     time.Time
}

// Due is a pending run whose time has come.
type Due struct {
	Key
	RunAt    time.Time
	Handler  string
	Priority int16
	Feed     int   // by its index in the order
	Admit    AdmitRule
}

// Poll is a worker that waits for runs.
type Poll struct {
	Session  uuid.UUID
	Handlers []string
	Max      int
}

// Assignment is a run and the seeker, by its index, that gets it.
type Assignment struct {
	Due
	Poll int
}

// Assign decides who gets which of the runs that are due, given in the order in which
// they are to start. Of those that know its handler and have room, a run goes to
// the one that has got fewest, so that work spreads. No two runs of a job that
// allows one at a time are dealt at once: the second is left for the next
// time, and so are all after it of that job.
func Assign(due []Due, polls []Poll) (dealt []Assignment) {
	given := make([]int, len(polls))
	taken := map[uuid.UUID]bool{}
	for _, d := range due {
		if d.Admit != AdmitFreely && taken[d.Job] {
			continue
		}
		best := -1
		for i, s := range polls {
			if given[i] < s.Max && (best < 0 || given[i] < given[best]) && slices.Contains(s.Handlers, d.Handler) {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		given[best]++
		taken[d.Job] = true
		dealt = append(dealt, Assignment{d, best})
	}
	return dealt
}

// PullClaimParams asks for runs of one queue.
type PullClaimParams struct {
	Queue int32
	Feeds []Feed
	Polls []Poll
	Limit int            // at most so many candidates of each lane
	Ahead time.Duration  // a run that is due so soon is told of
	Skip  func(Key) bool // runs that are not to be looked at now; nil: none
}

// PollParams says how lanes are looked at.
type PollParams struct {
	Ahead time.Duration  // runs that are due so soon count too
	Limit int            // of a lane, to find one that is not skipped
	Skip  func(Key) bool // nil: none
}

// PullClaimResult is what a claim of due runs came to.
type PullClaimResult struct {
	Now       time.Time
	Paused    bool // the queue starts nothing
	Limited   bool // the queue has limits
	Refused   []RefusedRun
	Claimed   []Claimed
	Undecided []Assignment // need a decision: see Admit
	Marks     []time.Time  // of the lanes, in their order
	Expired   []uuid.UUID  // sessions that are over
	Next      time.Time    // when the next run is due, if that is soon; zero: it is not
}

// RefusedRun is a run that found no place under a limit.
type RefusedRun struct {
	Due
	Refusal Refusal
}

// Claimed is an attempt for a worker.
type Claimed struct {
	Attempt
	Handler   string
	JobName   string
	ClaimedAt time.Time
}

// Lease is a worker's hold of an attempt, as the worker knows it.
type Lease struct {
	Key     Key
	Attempt int16
	// Progress, if the worker told any since the last time.
	Percent  *int16
	Progress *string
}

// WorkerSession is a live worker. It is of one queue.
type WorkerSession struct {
	ID        uuid.UUID
	Namespace uuid.UUID
	Queue     int32
	QueueName string
	Name      string
	ExpiresAt time.Time
}

// SessionParams is a worker's session to be opened.
type SessionParams struct {
	Namespace uuid.UUID
	Queue     string
	Name      string
	TTL       time.Duration
	Make      bool // the queue, if there is none of the name
	// Adopt is a session of the same worker that this one takes the place of: the
	// runs named become its own, and what else that one had is lost. Nil: none.
	Adopt uuid.UUID
	Runs  []Lease
}

// Validate returns every problem of an order at once: see [Problems].
func (o SessionParams) Validate() error {
	var c Checker
	if !queueForm.MatchString(o.Queue) {
		return &Problem{Field: "queue", Problem: Quote(o.Queue) + " is not a queue name", Fix: "use 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"}
	}
	c.Name(o.Name)
	if len(c) > 0 {
		return c[0]
	}
	return nil
}

// Gone is an attempt that is no longer the session's, and why.
type Gone struct {
	Lease
	Why GoneReason
}

// GoneReason is why an attempt is no longer a session's.
type GoneReason string

// The reasons. They are codes: programs switch on them.
const (
	GoneCancelled GoneReason = "cancelled" // somebody, or a newer run, cancelled the run
	GoneTimeout   GoneReason = "timeout"   // the attempt took too long
	GoneReported  GoneReason = "reported"  // this attempt had been reported
	GoneLost      GoneReason = "lost"      // another attempt took its place, or the run is gone
)

// Explain says a reason in words, with what to do.
func (r GoneReason) Explain() string {
	switch r {
	case GoneCancelled:
		return "the run was cancelled; stop working on it"
	case GoneTimeout:
		return "the attempt took longer than the job's timeout, and counts as failed; stop working on it"
	case GoneReported:
		return "this attempt was reported before; nothing more is to be done"
	default:
		return "the attempt is not this session's: its session had expired and the run was given to another, or it never was; stop working on it"
	}
}

// checkHandler says what is wrong with the name of a handler.
func checkHandler(field, name string) *Problem {
	if ValidHandler(name) {
		return nil
	}
	return &Problem{Field: field, Problem: Quote(name) + " is not the name of a handler", Fix: "use 1 to 100 letters, digits, '.', '_', ':', '/' and '-', beginning with a letter or digit"}
}

// CheckWorkerConfig says what is wrong with the settings of a worker target.
func CheckWorkerConfig(config json.RawMessage) error {
	var c map[string]json.RawMessage
	if len(config) == 0 || json.Unmarshal(config, &c) != nil {
		return &Problem{Field: "target.config", Problem: "it is not a JSON object", Fix: `name the handler: {"handler": "send-invoice"}`}
	}
	for name := range c {
		if name != "handler" {
			return &Problem{Field: "target.config." + name, Problem: "worker has no such setting", Fix: "remove it; there is handler alone"}
		}
	}
	var name string
	if json.Unmarshal(c["handler"], &name) != nil {
		return &Problem{Field: "target.config.handler", Problem: "it is missing, or no text", Fix: `name the handler: {"handler": "send-invoice"}`}
	}
	if p := checkHandler("target.config.handler", name); p != nil {
		return p
	}
	return nil
}

const sessionIDs = "ses_"

// FormatSessionID is the public id of a worker's session.
func FormatSessionID(id uuid.UUID) string { return sessionIDs + Alphabet.EncodeToString(id[:]) }

// ParseSessionID reads what FormatSessionID writes, and nothing else.
func ParseSessionID(s string) (uuid.UUID, error) {
	var id uuid.UUID
	if !DecodeID(s, sessionIDs, id[:]) {
		return uuid.UUID{}, fmt.Errorf("%w of a session: %s", ErrBadID, Quote(s))
	}
	return id, nil
}

// Fate is what is known of an attempt that is no longer a session's.
type Fate struct {
	Ended   *Ended       // how its run ended with it; nil: it did not
	Mine    bool         // that end was of the session's own attempt
	Outcome *OutcomeKind // what it came to, of a run that is live; nil: not known
}

// Why says why the attempt is no longer the session's.
func (f Fate) Why() GoneReason {
	switch {
	case f.Ended != nil && *f.Ended == EndedCancelled:
		return GoneCancelled
	case f.Ended != nil && f.Mine, f.Outcome != nil && *f.Outcome != Lost:
		return GoneReported
	default:
		return GoneLost
	}
}

// SessionPath names a worker's session: it has to be of this namespace and queue.
type SessionPath struct {
	Namespace uuid.UUID
	Queue     string
	ID        uuid.UUID
}

// OpenedSession is a session that was opened, and which of the runs that it was
// to adopt it has not got.
type OpenedSession struct {
	WorkerSession
	TTL  time.Duration
	Gone []Gone
}

// PullParams is a worker's wish for runs.
type PullParams struct {
	Handlers []string
	Max      int
	Wait     time.Duration // so long for the first one
}

// Storable makes a text from outside fit for the database, and at most so many
// bytes long: what it says is for people, and no reason to refuse a report.
func Storable(s string, most int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) {
		s = s[:len(s)-1]
	}
	return s
}
