package server_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

const (
	bulkLines   = 5_000
	bulkClients = 2
	bulkRate    = 5_000 // jobs per second, at least
)

// TestBulkCreateIsFast measures how many jobs per second the API creates: BELFRY_BULK jobs that share 20
// schedules, and as many with a schedule each. make measure-bulk is the long form.
func TestBulkCreateIsFast(t *testing.T) {
	jobs, err := strconv.Atoi(os.Getenv("BELFRY_BULK"))
	if err != nil {
		t.Skip("set BELFRY_BULK to the number of jobs, such as 50000")
	}
	shared := func(i int) string { return fmt.Sprintf(`{"cron":"%d * * * *"}`, 3*(i%20)) }
	own := func(i int) string {
		return fmt.Sprintf(`{"cron":"%d %d %d * *"}`, i%60, i/60%24, i/1440%28+1)
	}
	at := func(i int) string {
		return fmt.Sprintf(`"%s"`, time.Date(2099, 1, 1, 0, 0, i, 0, time.UTC).Format(time.RFC3339))
	}
	for _, c := range []struct {
		what     string
		schedule func(int) string
		key      bool // send an Idempotency-Key
	}{
		{"20 schedules", shared, false},
		{"20 schedules, with a key", shared, true},
		{"a cron schedule each", own, false},
		{"one-offs, each at its own time", at, false},
	} {
		b := setup(t)
		rate := b.bulkLoad(jobs, c.schedule, c.key)
		t.Logf("bulk create, %-32s %d jobs, %d clients: %6.0f jobs/s", c.what+":", jobs, bulkClients, rate)
		require.Greater(t, rate, float64(bulkRate), c.what)
	}
}

// bulkLoad creates jobs with several clients at the same time and returns how many it created per second.
func (b *bundle) bulkLoad(jobs int, schedule func(int) string, key bool) float64 {
	b.t.Helper()
	bodies := make(chan string, jobs/bulkLines+1)
	for from := 0; from < jobs; from += bulkLines {
		var body strings.Builder
		for i := from; i < from+bulkLines; i++ {
			fmt.Fprintf(&body, `{"name":"%s-%07d","schedule":%s,"target":{"kind":"noop"},"labels":{"half":"no"},`+
				`"payload":{"customer":%d,"note":"%s"}}`+"\n",
				[]string{"alpha", "beta"}[i%2], i, schedule(i), i, strings.Repeat("x", 200))
		}
		bodies <- body.String()
	}
	close(bodies)
	began := clock.Elapsed()
	var wait sync.WaitGroup
	for range bulkClients {
		wait.Go(func() {
			for body := range bodies {
				header := []string{"Content-Type", "application/x-ndjson"}
				if key {
					header = append(header, "Idempotency-Key", body[:30])
				}
				a := b.call("POST", "/jobs:bulk", body, header...)
				if a.status != 200 || a.json(b.t)["created"] != float64(bulkLines) {
					b.t.Errorf("%d %.300s", a.status, a.body)
				}
			}
		})
	}
	wait.Wait()
	return float64(jobs) / (clock.Elapsed() - began).Seconds()
}
