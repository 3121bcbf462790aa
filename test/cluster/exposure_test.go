package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exposure explains the duplicates of killed nodes. A run is delivered again if its node dies after the sink received it
// and before its outcome is written: until then it is at risk. Each kill hits one of the nodes, so if attempts are at
// risk on all of them together, it should hit that number divided by the number of nodes.
type exposure struct {
	working, replied int // attempts that died while the sink worked, and after its reply
	risks            int // attempts at risk, summed over kills
	kills, nodes     int

	work, write time.Duration // of attempts that survived, in all
	survived    int
}

// expected is the number of duplicates that the kills should have caused.
func (e *exposure) expected() float64 { return float64(e.risks) / float64(e.nodes) }

func (e *exposure) String() string {
	mean := func(d time.Duration) time.Duration {
		return (d / time.Duration(max(1, e.survived))).Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("duplicates=%d expected=%.0f: %.2f attempts at risk per kill and node; %d died while the sink "+
		"worked (%s on average), %d after its reply (%s, and the commit)", e.working+e.replied, e.expected(),
		e.expected()/float64(max(1, e.kills)), e.working, mean(e.work), e.replied, mean(e.write))
}

// exposure compares what the sink received with the ledger.
func (c *cluster) exposure() *exposure {
	c.t.Helper()
	ended := map[string]time.Time{}
	for run, e := range c.ledger() {
		if len(e) == 1 {
			ended[run] = e[0].endedAt
		}
	}
	return exposureOf(c.sink.all(), ended, c.killed, len(c.nodes))
}

// exposureOf counts the attempts at risk at each kill. An attempt that was not the last of its run was lost: its node was
// killed before the sink noticed that it was gone, or the next time after the reply.
func exposureOf(all []receipt, ended map[string]time.Time, kills []time.Time, nodes int) *exposure {
	e := &exposure{kills: len(kills), nodes: nodes}
	runs := map[string][]receipt{}
	for _, x := range all {
		runs[x.run] = append(runs[x.run], x)
	}
	for run, receipts := range runs {
		for i, x := range receipts {
			until, died := ended[run], i < len(receipts)-1
			switch {
			case died && !x.gone.IsZero():
				e.working++
				until = x.gone
			case died:
				e.replied++
				until = firstAfter(kills, x.answered)
			case until.IsZero():
				continue
			default:
				e.work, e.write = e.work+x.answered.Sub(x.received), e.write+until.Sub(x.answered)
				e.survived++
			}
			for _, at := range kills {
				if !at.Before(x.received) && !at.After(until) {
					e.risks++
				}
			}
		}
	}
	return e
}

// firstAfter returns the first of some times that is not before an instant.
func firstAfter(times []time.Time, at time.Time) time.Time {
	for _, t := range times {
		if !t.Before(at) {
			return t
		}
	}
	return at
}

// TestExposure: of six attempts on three nodes, four are at risk when the node of one of them is killed.
func TestExposure(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(1_000_000_000, 0).Add(time.Duration(ms) * time.Millisecond) }
	receipts := []receipt{
		{run: "survives", received: at(0), answered: at(5)},
		{run: "at work", received: at(95), answered: at(105)},
		{run: "replied", received: at(90), answered: at(95)},
		{run: "dies at work", received: at(99), gone: at(101), answered: at(110)},
		{run: "dies", received: at(90), answered: at(98)},
		{run: "later", received: at(101), answered: at(102)},
		{run: "dies at work", received: at(5_100), answered: at(5_101)},
		{run: "dies", received: at(5_100), answered: at(5_101)},
	}
	ended := map[string]time.Time{
		"survives": at(9), "at work": at(106), "replied": at(101), "later": at(103), "dies at work": at(5_102),
		"dies": at(5_102),
	}
	e := exposureOf(receipts, ended, []time.Time{at(50), at(100), at(3_000)}, 3)
	require.Equal(t, 1, e.working)
	require.Equal(t, 1, e.replied)
	require.Equal(t, 4, e.risks)
	require.InDelta(t, 4.0/3, e.expected(), 1e-9)
	require.Equal(t, 6, e.survived)
}
