package doctor

import (
	"fmt"
	"time"
)

// Machine is what the machine that runs doctor reports. It should be one that runs a node.
type Machine struct {
	Now         time.Time    // wall clock, when the database answered
	Certificate *Certificate // nil: TLS is off
	Self        Probe        // of the API's own address
	Archive     Probe        // of the archive of history; not asked if there is none
	Sandbox     Probe        // of running commands; not asked if commands are off
}

// Certificate is the certificate of the API.
type Certificate struct {
	Problem string // why it cannot be read; empty: it can
	Expires time.Time
}

// Probe is a try of something real.
type Probe struct {
	Asked   bool
	What    string
	Problem string // empty: it worked
	Skipped string // why it was not tried; empty: it was
}

const (
	maxClockDifference = 30 * time.Second    // clock.MaxJump
	maxClockGap        = 14 * 24 * time.Hour // clock.MaxGap
	certificateWarning = 14 * 24 * time.Hour
	filesPerSlot       = 2
	minMemory          = 256 << 20
	bytesPerSlot       = 64 << 10
)

var timeChecks = []check{
	{"time", "clock", true, (*Facts).clock},
	{"time", "time-zones", false, (*Facts).timeZones},
}

func (f *Facts) clock() verdict {
	text := "the clock of the database agrees with the clock of this machine"
	off := f.Database.Now.Sub(f.Machine.Now)
	agree := off.Abs() <= maxClockDifference
	if !agree {
		text = fmt.Sprintf("the clock of the database is %s the clock of this machine", apart(off))
	}
	if doubt := f.clockDoubt(); doubt != "" {
		hint := "Correct the wrong one of the two clocks. Nodes continue by themselves."
		if agree {
			hint = "If it is right, run with the database URL of the nodes: belfry clock confirm"
		}
		return fail(hint, "%s, so nodes do no work; %s", doubt, text)
	}
	if !agree {
		return warn("Run a time service (NTP) on both machines.", "%s", text)
	}
	return ok("%s", text)
}

// clockDoubt says why nodes do not trust the clock of the database; empty: they do. Without a node the last trusted
// time grows old, and the first node that starts moves it on, unless it is too old.
func (f *Facts) clockDoubt() string {
	c := f.Cluster
	if c == nil {
		return ""
	}
	off := f.Database.Now.Sub(c.TrustedAt)
	switch {
	case c.TrustedAt.IsZero() && len(c.Nodes) == 0, off.Abs() <= maxClockDifference:
		return ""
	case c.TrustedAt.IsZero():
		return "no node has ever trusted the clock of the database"
	case len(c.Nodes) == 0 && off.Abs() <= maxClockGap:
		return ""
	}
	return fmt.Sprintf("the clock of the database is in doubt, %s the time that nodes trusted last, %s",
		apart(off), c.TrustedAt.UTC().Format(time.RFC3339))
}

// apart says how far a clock is off.
func apart(d time.Duration) string {
	if d < 0 {
		return ago(-d) + " behind"
	}
	return ago(d) + " ahead of"
}

func (f *Facts) timeZones() verdict {
	all := f.differing(func(n Node) string { return n.Zones })
	if len(all) > 1 {
		return warn("Update tzdata on all machines and restart the nodes.", "nodes have different time zone rules")
	}
	return ok("all nodes have the same rules")
}

// nodeGroup is the group of checks that look at this machine and at the limits of nodes.
const nodeGroup = "node"

const noNode = "no node is running"

var nodeChecks = []check{
	{nodeGroup, "files", false, (*Facts).files},
	{nodeGroup, "memory", false, (*Facts).memory},
	{nodeGroup, "certificate", true, (*Facts).certificate},
	{nodeGroup, "api", false, (*Facts).api},
	{nodeGroup, "commands", true, (*Facts).commands},
}

func (f *Facts) files() verdict {
	for _, n := range f.Cluster.Nodes {
		if need := uint64(n.Slots) * filesPerSlot; n.Files > 0 && n.Files < need {
			return warn("Raise its limit: LimitNOFILE in systemd, ulimit -n in a shell.",
				"node %s may open %d files and connections; its %d slots need %d", n.Name, n.Files, n.Slots, need)
		}
	}
	return f.ofNodes("each node may open two files or connections for each of its slots")
}

func (f *Facts) memory() verdict {
	for _, n := range f.Cluster.Nodes {
		if need := uint64(minMemory + n.Slots*bytesPerSlot); n.Memory > 0 && n.Memory < need {
			return warn("Raise the memory limit of its container or unit, or lower slots.",
				"the limit of node %s is %d MiB; its %d slots need about %d MiB", n.Name, n.Memory>>20, n.Slots, need>>20)
		}
	}
	return f.ofNodes("no node has a memory limit that is too low for its slots")
}

// ofNodes is the verdict on nodes without a fault.
func (f *Facts) ofNodes(text string) verdict {
	if len(f.Cluster.Nodes) == 0 {
		return notChecked(noNode)
	}
	return ok("%s", text)
}

func (f *Facts) certificate() verdict {
	c := f.Machine.Certificate
	switch {
	case c == nil:
		return ok("TLS is off")
	case c.Problem != "":
		return fail("Check tls_cert and tls_key.", "%s", c.Problem)
	}
	switch left := c.Expires.Sub(f.Machine.Now); {
	case left <= 0:
		return fail("Renew it.", "the certificate expired on %s", c.Expires.Format(time.DateOnly))
	case left < certificateWarning:
		return warn("Renew it.", "the certificate expires in %s", ago(left))
	}
	return ok("valid until %s", c.Expires.Format(time.DateOnly))
}

func (f *Facts) api() verdict {
	p := f.Machine.Self
	switch {
	case !p.Asked:
		return notChecked(noNode)
	case p.Problem != "":
		return fail("Check that the node runs (its log, /healthz). If it does, set api.url to an address at which targets and "+
			"workers reach it.",
			"%s does not answer: %s", p.What, p.Problem)
	}
	return ok("%s answers", p.What)
}

func (f *Facts) commands() verdict {
	p := f.Machine.Sandbox
	switch {
	case !p.Asked:
		return ok("off")
	case p.Problem != "":
		return fail("Fix what it names, or set command.enabled to false on this node.", "%s", p.Problem)
	}
	return ok("the sandbox works")
}
