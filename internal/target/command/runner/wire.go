package runner

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// maxFrame bounds an order or a report: a payload and a config, in base64 and JSON.
const maxFrame = 4 << 20

// Settings are what a node lets commands do. They come from its operator.
type Settings struct {
	Bubblewrap string   // its path
	Programs   []string // that may be run: files, and directories with all that is below
	Paths      []string // that commands see, read-only
	Network    bool     // commands may ask for it
	Memory     int64    // bytes
	Processes  int
	Scratch    int64    // bytes of /tmp
	Socket     string   // of Docker or Podman; empty: no containers
	Node       string   // which one's they are: of no other process, ever
	Images     []string // that may be run: names, and beginnings that end in *
}

// Spec is one command.
type Spec struct {
	Program string
	Args    []string
	Env     []string
	Stdin   []byte
	Network bool
	Timeout time.Duration
	Image   string // of a container; empty: none, it runs in bubblewrap
	Label   string // what a container is for: the run and the attempt
}

// Order is what a node asks for.
type Order struct {
	ID       uint64
	Settings *Settings `json:",omitempty"` // of the first order alone
	Start    *Spec     `json:",omitempty"`
	Stop     bool      `json:",omitempty"`
}

// Report is what the runner tells. Result is the last of its ID.
type Report struct {
	ID      uint64
	Output  []byte  `json:",omitempty"` // what came since the last one, or its end
	Skipped int64   `json:",omitempty"` // bytes before Output that were too many
	Result  *Result `json:",omitempty"`
}

// End is how a command ended.
type End string

// The ends.
const (
	Exited     End = "exited"      // by itself, with a code
	TimedOut   End = "timed_out"   // it was killed when its time was over
	Stopped    End = "stopped"     // it was killed because the node said so
	TooMuch    End = "too_much"    // it was killed for what it took: Detail says of what
	Refused    End = "refused"     // the settings do not allow it: Detail says what
	Lost       End = "lost"        // it began, and what became of it is not known: Detail says why
	NotStarted End = "not_started" // the sandbox could not be made: Detail says why
)

// Result is what a command came to.
type Result struct {
	End    End
	Code   int    `json:",omitempty"` // of Exited; 128 + n: killed by signal n
	Detail string `json:",omitempty"`
}

// Write sends an order or a report.
func Write(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxFrame {
		return fmt.Errorf("%d bytes; at most %d are sent at once", len(b), maxFrame)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, len(b)+4), uint32(len(b))), b...))
	return err
}

// Read receives an order or a report.
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
