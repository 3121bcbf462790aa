package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

func TestRestored(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 8, 2, 30, 0, 0, time.UTC)
	server := clock.Server{System: 7, Timeline: 3}
	for name, c := range map[string]struct {
		before, now clock.Server
		mark        time.Duration // ago; 0: none
		want        bool
	}{
		"an outage":                          {server, server, time.Hour, false},
		"a failover":                         {server, clock.Server{System: 7, Timeline: 4}, 20 * time.Second, false},
		"a failover that takes a minute":     {server, clock.Server{System: 7, Timeline: 4}, time.Minute, false},
		"a slow failover, or a restore":      {server, clock.Server{System: 7, Timeline: 4}, time.Minute + 1, true},
		"a restore":                          {server, clock.Server{System: 7, Timeline: 9}, time.Hour, true},
		"a dump on another server":           {server, clock.Server{System: 8, Timeline: 1}, time.Hour, true},
		"another server, the same timeline":  {server, clock.Server{System: 8, Timeline: 3}, time.Hour, true},
		"the clock went back":                {server, clock.Server{System: 7, Timeline: 4}, -time.Hour, false},
		"no node has ever worked":            {server, clock.Server{System: 7, Timeline: 4}, 0, false},
		"a server that was not known before": {clock.Server{}, server, time.Hour, false},
		"a server that says nothing":         {server, clock.Server{}, time.Hour, false},
		"a server that says the timeline":    {server, clock.Server{Timeline: 4}, time.Hour, true},
	} {
		s := clock.Sample{Now: now}
		if c.mark != 0 {
			s.Mark = now.Add(-c.mark)
		}
		require.Equal(t, c.want, clock.Restored(c.before, c.now, s), name)
	}
}
