// Package systemd reports the state of a node to the service manager (sd_notify) and feeds its watchdog.
//
// The watchdog restarts a process that hangs. It must not restart a node whose database is down: that happens on all
// nodes at the same time, and a restart does not help. So a beat means that each watched loop has ended a round since
// the last beat, whether the round succeeded or failed. A round that waits for the database has a limit, and the
// watchdog's time has to be longer than that. A deadlock in a loop, or a process that gets no CPU, stops the beats.
package systemd

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
)

const (
	sendLimit = time.Second // the socket's buffer may be full
	beatsPer  = 4           // how often in the watchdog's time it is decided whether to beat
)

// Notifier reports to the service manager. All methods of a nil Notifier do nothing.
type Notifier struct {
	socket   string
	status   atomic.Pointer[string]  // the last one of a node that works; nil: it starts or stops
	watchdog time.Duration           // 0: there is none
	rounds   map[string]*atomic.Bool // ended a round since the last beat; by loop
}

// New returns the notifier that the environment asks for; nil: the process was not started by systemd, or not with
// Type=notify. The loops are those that have to go on for the watchdog to get a beat.
func New(getenv func(string) string, loops ...string) (*Notifier, error) {
	n := &Notifier{socket: getenv("NOTIFY_SOCKET"), rounds: map[string]*atomic.Bool{}}
	if n.socket == "" {
		return nil, nil //nolint:nilnil // a nil Notifier works
	}
	if n.socket[0] != '/' && n.socket[0] != '@' {
		return nil, fmt.Errorf("NOTIFY_SOCKET %q is neither a path nor an abstract socket", n.socket)
	}
	for _, name := range loops {
		n.rounds[name] = &atomic.Bool{}
	}
	if pid := getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return n, nil // the watchdog is that of another process
	}
	if text := getenv("WATCHDOG_USEC"); text != "" {
		us, err := strconv.ParseInt(text, 10, 64)
		if err != nil || us <= 0 {
			return nil, fmt.Errorf("WATCHDOG_USEC %q is not a number of microseconds", text)
		}
		n.watchdog = time.Duration(us) * time.Microsecond
	}
	return n, nil
}

// Waiting reports why the start takes long.
func (n *Notifier) Waiting(why string) error { return n.send("STATUS=" + why) }

// Ready reports that the node works.
func (n *Notifier) Ready(status string) error {
	if n != nil {
		n.status.Store(&status)
	}
	return n.send("READY=1\nSTATUS=" + status)
}

// Status reports what a node that is ready does, if that has changed.
func (n *Notifier) Status(status string) error {
	if n == nil {
		return nil
	}
	last := n.status.Load()
	if last == nil || *last == status || !n.status.CompareAndSwap(last, &status) {
		return nil
	}
	return n.send("STATUS=" + status)
}

// Stopping reports that the node hands over its work.
func (n *Notifier) Stopping(status string) error {
	if n != nil {
		n.status.Store(nil)
	}
	return n.send("STOPPING=1\nSTATUS=" + status)
}

// Round notes that a loop has ended a round.
func (n *Notifier) Round(loop string) {
	if n == nil {
		return
	}
	if ended := n.rounds[loop]; ended != nil {
		ended.Store(true)
	}
}

// Beat feeds the watchdog until ctx ends. A failure is not reported: the next beat is soon, and without any the
// service manager logs that it ends the node.
func (n *Notifier) Beat(ctx context.Context) {
	if n == nil || n.watchdog == 0 {
		return
	}
	ticker := time.NewTicker(n.watchdog / beatsPer)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if n.alive() && n.send("WATCHDOG=1") == nil {
				for _, ended := range n.rounds {
					ended.Store(false)
				}
			}
		}
	}
}

// alive returns whether every watched loop has ended a round since the last beat.
func (n *Notifier) alive() bool {
	for _, ended := range n.rounds {
		if !ended.Load() {
			return false
		}
	}
	return true
}

// send connects each time, because a service manager that is replaced has a new socket.
func (n *Notifier) send(state string) error {
	if n == nil {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetWriteDeadline(clock.Now().Add(sendLimit)); err != nil {
		return err
	}
	_, err = c.Write([]byte(state))
	return err
}
