package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What differs each time, and what stands for it in testdata/why. Times from 2090
// on are the tests' own, and stay.
var volatile = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(` \[key_\w+\]`), ""},
	{regexp.MustCompile(`20[0-8]\d-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? (CES?T|UTC)`), "TIME $2"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d UTC`), "TIME UTC"},
	{regexp.MustCompile(`TIME CES?T`), "TIME CET"},
	{regexp.MustCompile(`20[0-8]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`(run|job|op)_\w{20,}`), "${1}_ID"},
	{regexp.MustCompile(`started (on time|\S+ late)`), "started ON TIME OR LATE"},
	{regexp.MustCompile(`(took|in|late by|for) [0-9][0-9a-zµ.]*( days)?`), "$1 SO LONG"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "TARGET"},
	{regexp.MustCompile(`one of \d+,`), "one of MANY,"},
}

func normalise(text []byte) []byte {
	for _, v := range volatile {
		text = v.find.ReplaceAll(text, []byte(v.put))
	}
	return text
}

// whyBook collects the stories of a test, in order.
type whyBook struct {
	n       *whyNode
	printed strings.Builder
	files   []string
}

// tell asks why, and compares what is printed with testdata/why/NAME.txt; with
// BELFRY_WHY=update it is written.
func (b *whyBook) tell(name, what, job string, at ...any) {
	t := b.n.t
	t.Helper()
	printed, golden := b.n.why(job, at...)
	fmt.Fprintf(&b.printed, "\n## %s\n\n%s", what, printed)
	file := filepath.Join("testdata", "why", name+".txt")
	b.files = append(b.files, name+".txt")
	golden = "# " + what + "\n" + golden
	if os.Getenv("BELFRY_WHY") == "update" {
		require.NoError(t, os.WriteFile(file, []byte(golden), 0o600))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "make why UPDATE=1 writes it")
	require.Equal(t, string(want), golden, "%s: %s\n%s", name, what, printed)
}

// TestWhy makes each story happen on a real node, and compares what belfry why
// prints of it.
func TestWhy(t *testing.T) {
	t.Parallel()
	n := newWhyNode(t)
	b := &whyBook{n: n}

	// Made first, as their time must pass.
	n.once("ran", "/ok")
	n.file(`{name: retried, schedule: {at: %q, timezone: Europe/Berlin}, target: {kind: http, config: {url: %q}}, retry: {base: 1s}}`, soon(n), n.target+"/flaky")
	n.file(`{name: retrying, schedule: {at: %q, timezone: Europe/Berlin}, target: {kind: http, config: {url: %q}}, retry: {base: 1h, cap: 1h, jitter: -1}}`, soon(n), n.target+"/flaky")
	n.file(`{name: dead, schedule: {at: %q, timezone: Europe/Berlin}, target: {kind: http, config: {url: %q}}, retry: {max_attempts: 2, backoff: none}}`, soon(n), n.target+"/broken")
	n.once("rejected", "/rejects")
	n.once("gone", "/gone")
	n.once("hangs", "/hangs", "--timeout", "10m")
	n.once("accepted", "/accepts")
	n.once("to cancel", "/hangs", "--timeout", "10m")
	n.once("by hand", "/ok")
	for _, overlap := range []string{"skip", "queue", "replace"} {
		n.good("job", "create", "overlap "+overlap, "--every", "1s", "--tz", "Europe/Berlin", "--url", n.target+"/hangs", "--overlap", overlap, "--timeout", "10m")
	}
	for _, policy := range []string{"skip", "once", "all"} {
		n.file(`{name: missed %s, schedule: {every: 1s, timezone: Europe/Berlin}, target: {kind: http, config: {url: %q}}, missed: {policy: %s, max: 3, pace: 1ms}, overlap: allow}`, policy, n.target+"/ok", policy)
	}
	n.good("job", "create", "paused", "--every", "1s", "--tz", "Europe/Berlin", "--url", n.target+"/ok")
	n.good("job", "create", "counted", "--every", "1s", "--tz", "Europe/Berlin", "--url", n.target+"/ok", "--max-runs", "1")
	n.good("job", "create", "in imports", "--every", "1s", "--tz", "Europe/Berlin", "--url", n.target+"/ok", "--queue", "imports")
	n.good("job", "create", "urgent", "--every", "1s", "--tz", "Europe/Berlin", "--url", n.target+"/ok", "--queue", "imports", "--deadline", "1s")
	n.good("queue", "pause", "imports", "--note", "the warehouse is being moved")
	nightly := `{name: %s, schedule: {cron: 30 2 * * *, timezone: Europe/Berlin, dst: {gap: %s}, start_at: "2098-02-01T00:00:00Z", end_at: "2099-01-01T00:00:00Z", calendars: [{dates: [12-25]}]}, target: {kind: http, config: {url: %q}}}`
	n.file(nightly, "nightly", "skip", n.target+"/ok")
	n.file(nightly, "shifted", "shift", n.target+"/ok")

	n.await("ran", "--state", "succeeded")
	b.tell("ran", "It ran", "ran")
	n.await("retried", "--state", "succeeded")
	b.tell("retried", "It ran, with its second attempt", "retried")
	n.await("retrying", "--due-before", soon(n))
	require.Eventually(t, func() bool { return strings.Contains(n.good("why", "retrying"), "retrying") }, time.Minute, 50*time.Millisecond)
	b.tell("retrying", "An attempt failed, and the next one is to come", "retrying")
	dead := n.await("dead", "--state", "failed")
	b.tell("dead", "It failed for good: a dead letter", "dead")
	n.await("rejected", "--state", "failed")
	b.tell("rejected", "Its target refused it", "rejected")
	n.good("dlq", "discard", n.await("rejected").ID)
	b.tell("discarded", "Its dead letter was discarded", "rejected")
	n.await("gone", "--state", "failed")
	b.tell("gone", "Its target said that it is gone for ever", "gone")
	n.await("hangs", "--state", "running")
	b.tell("running", "It runs", "hangs")
	n.await("accepted", "--state", "waiting")
	b.tell("waiting", "Its target accepted it and has not reported", "accepted")
	n.good("run", "cancel", n.await("to cancel", "--state", "running").ID)
	b.tell("cancelled", "Somebody cancelled it", "to cancel")
	hand := strings.Fields(n.good("job", "trigger", "by hand"))[1]
	n.await("by hand", "--state", "succeeded")
	require.Eventually(t, func() bool { return strings.Contains(n.good("run", "get", hand), "succeeded") }, time.Minute, 50*time.Millisecond)
	var triggered runView
	require.NoError(t, json.Unmarshal([]byte(n.good("run", "get", hand, "-o", "json")), &triggered))
	b.tell("triggered", "Somebody triggered it", "by hand", triggered.DueAt)

	b.tell("overlap", "Skipped: the one before was still running", "overlap skip", n.await("overlap skip", "--state", "skipped").DueAt)
	n.await("overlap queue", "--state", "running")
	b.tell("behind", "It waits for the one before to end", "overlap queue", n.await("overlap queue", "--state", "due").DueAt)
	b.tell("queue-limit", "Skipped: one waits already", "overlap queue", n.await("overlap queue", "--state", "skipped").DueAt)
	b.tell("replaced", "A newer run took its place", "overlap replace", n.await("overlap replace", "--state", "cancelled").DueAt)
	n.await("counted", "--state", "succeeded")
	require.Eventually(t, func() bool { return strings.Contains(n.good("why", "counted"), "finished") }, time.Minute, 50*time.Millisecond)
	b.tell("finished", "max_runs is reached", "counted", n.now().Add(time.Hour).Truncate(time.Second).Format(time.RFC3339))
	for _, name := range []string{"overlap skip", "overlap queue", "overlap replace"} {
		n.good("job", "delete", name)
	}

	b.tell("not-due", "It is not due yet", "nightly", "2098-06-01T02:30")
	b.tell("dst-gap", "A change of the clock takes it away", "nightly", "2098-03-30T02:30")
	b.tell("dst-shift", "A change of the clock shifts it", "shifted", "2098-03-30T02:30")
	b.tell("calendar", "A calendar excludes it", "nightly", "2098-12-25T02:30")
	b.tell("before-start", "Before start_at", "nightly", "2098-01-15T02:30")
	b.tell("after-end", "After end_at", "nightly", "2099-06-01T02:30")
	b.tell("no-occurrence", "The schedule has no such time", "nightly", "2098-06-01T02:31")
	b.tell("created-later", "The job did not exist yet", "nightly", "2019-06-01T02:30")

	queued := n.await("in imports", "--state", "due")
	b.tell("queue-paused", "Its queue is paused", "in imports", queued.DueAt)
	late := n.await("urgent", "--state", "due")
	require.Eventually(t, func() bool { return n.now().Sub(*late.DueAt) > 1500*time.Millisecond }, time.Minute, 50*time.Millisecond)
	n.good("queue", "resume", "imports")
	b.tell("expired", "Skipped: it could not start within its deadline", "urgent", n.await("urgent", "--state", "skipped").DueAt)

	paused := n.await("paused", "--state", "succeeded")
	n.good("job", "pause", "paused", "--note", "the target is being moved")
	during := n.now().Truncate(time.Second).Add(3 * time.Second) // the next one may be claimed already
	require.Eventually(t, func() bool { return n.now().After(during) }, time.Minute, 50*time.Millisecond)
	b.tell("paused", "The job is paused", "paused", &during)
	b.tell("paused-next", "The job is paused, and it is not due yet", "paused", n.now().Add(time.Hour).Truncate(time.Second).Format(time.RFC3339))
	require.True(t, paused.DueAt.Before(during))
	n.good("job", "resume", "paused")
	b.tell("was-paused", "Skipped: the job was paused", "paused", &during)

	n.good("dlq", "redrive", dead.ID)
	require.Eventually(t, func() bool {
		said := n.good("why", "dead")
		return strings.Contains(said, "It was redriven") && strings.Contains(said, "failed: attempts")
	}, time.Minute, 50*time.Millisecond)
	b.tell("redriven", "It was redriven, and failed again", "dead")

	var doomed jobView
	n.once("doomed", "/ok")
	n.await("doomed", "--state", "succeeded")
	require.NoError(t, json.Unmarshal([]byte(n.good("job", "get", "doomed", "-o", "json")), &doomed))
	n.good("job", "delete", "doomed")
	b.tell("deleted-ran", "It ran, and its job was deleted since", doomed.ID)
	b.tell("deleted", "The job was deleted before", doomed.ID, "2098-06-01T02:30")

	b.missed()
	b.done()
}

// soon is a moment from now.
func soon(n *whyNode) string { return n.now().Add(500 * time.Millisecond).Format(time.RFC3339Nano) }

// missed stops the node until occurrences are missed, and starts it again.
func (b *whyBook) missed() {
	n, t := b.n, b.n.t
	n.stop()
	stopped := n.now()
	// An API without a node tells what can be told meanwhile.
	node := n.api
	n.api = apiOn(t, n.pool)
	at := stopped.Add(4 * time.Second).Truncate(time.Second)
	require.Eventually(t, func() bool { return n.now().Sub(at) > 14*time.Second }, time.Minute, 100*time.Millisecond)
	b.tell("down", "No node is alive", "missed skip", &at)
	n.api = node
	n.start()
	n.await("missed skip", "--state", "succeeded", "--due-from", n.now().Format(time.RFC3339))
	b.tell("missed", "Missed while the cluster was down", "missed skip", &at)
	b.tell("missed-once", "Missed while the cluster was down, and a newer one was caught up", "missed once", &at)
	caught := func() *time.Time {
		var all []runView
		require.NoError(t, json.Unmarshal([]byte(n.good("job", "runs", "missed once", "-o", "json", "--state", "succeeded", "--limit", "0", "--due-from", at.Format(time.RFC3339))), &all))
		for _, r := range all {
			if r.Origin == "missed" {
				return r.DueAt
			}
		}
		return nil
	}
	require.Eventually(t, func() bool { return caught() != nil }, time.Minute, 100*time.Millisecond)
	b.tell("caught-up", "Missed while the cluster was down, and caught up", "missed once", caught())
	b.tell("missed-max", "Missed, and more were than missed.max", "missed all", &at)
}

// done checks that no file is left over, and prints the stories for make why.
func (b *whyBook) done() {
	t := b.n.t
	found, err := os.ReadDir(filepath.Join("testdata", "why"))
	require.NoError(t, err)
	for _, f := range found {
		require.True(t, slices.Contains(b.files, f.Name()), "%s is no story any more; remove it", f.Name())
	}
	if name := os.Getenv("BELFRY_WHY_FILE"); name != "" {
		require.NoError(t, os.WriteFile(name, []byte(b.printed.String()), 0o600))
	}
}
