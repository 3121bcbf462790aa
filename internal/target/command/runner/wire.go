package runner

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// maxFrame is the maximum size of a request or a report in bytes: a payload and a config, in base64 and JSON.
const maxFrame = 4 << 20

// Settings are what the operator of a node allows commands to do.
type Settings struct {
	Bubblewrap string   // its absolute path
	Programs   []string // allowed programs: files, and directories with everything below them; see Scoped
	Paths      []string // paths that commands see, read-only
	Network    bool     // commands may use the network if their job asks for it
	Memory     int64    // bytes
	Processes  int
	Scratch    int64    // size of /tmp in bytes
	Socket     string   // of Docker or Podman; empty: no containers
	Node       string   // unique id of the node's process
	Images     []string // allowed images: names, and prefixes that end in *; see Scoped
}

// Scoped splits NAMESPACE=ENTRY. An entry without a namespace is for all.
func Scoped(entry string) (namespace, rest string) {
	if name, rest, ok := strings.Cut(entry, "="); ok && !strings.Contains(name, "/") {
		return name, rest
	}
	return "", entry
}

// of returns the entries for a namespace.
func of(namespace string, entries []string) (out []string) {
	for _, e := range entries {
		if name, rest := Scoped(e); name == "" || name == namespace {
			out = append(out, rest)
		}
	}
	return out
}

// Spec is one command.
type Spec struct {
	Program string
	Args    []string
	Env     []string
	Stdin   []byte
	Network bool
	Timeout time.Duration
	Image   string // of a container; empty: it runs in bubblewrap
	Label   string // of a container: the run and the attempt
	// Namespace is the name of the job's namespace; empty if no setting names one.
	Namespace string
}

// Request is what the node sends to the runner.
type Request struct {
	ID       uint64
	Settings *Settings `json:",omitempty"` // in the first request only
	Start    *Spec     `json:",omitempty"`
	Stop     bool      `json:",omitempty"`
}

// Report is what the runner sends to the node. The report with a Result is the last of its ID.
type Report struct {
	ID      uint64
	Output  []byte  `json:",omitempty"` // output since the last report, or the end of it
	Skipped int64   `json:",omitempty"` // number of bytes before Output that were dropped
	Result  *Result `json:",omitempty"`
}

// End is how a command ended.
type End string

// The ends. Detail explains the last four.
const (
	Exited     End = "exited"      // by itself, with a code
	TimedOut   End = "timed_out"   // killed after its timeout
	Stopped    End = "stopped"     // killed because the node asked for it
	TooMuch    End = "too_much"    // killed because it exceeded a limit
	Refused    End = "refused"     // the settings do not allow it
	Lost       End = "lost"        // it started, and its result is unknown
	NotStarted End = "not_started" // the sandbox could not be created
)

// Result is how a command ended.
type Result struct {
	End    End
	Code   int    `json:",omitempty"` // of Exited; 128 + n: killed by signal n
	Detail string `json:",omitempty"`
}

// Write sends a request or a report.
func Write(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxFrame {
		return fmt.Errorf("%d bytes; at most %d are allowed", len(b), maxFrame)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, len(b)+4), uint32(len(b))), b...))
	return err
}

// Read receives a request or a report.
func Read(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return fmt.Errorf("%d bytes announced; at most %d are allowed", n, maxFrame)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
