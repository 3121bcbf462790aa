package cli

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

	"github.com/belfry-dev/belfry/internal/cli/clitest"
)

// volatile lists what differs in each run of the test, and what replaces it in testdata/why. Times from 2090
// on are set by the test, and stay.
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

// whyBook collects the stories of a test in order.
type whyBook struct {
	n       *whyNode
	printed strings.Builder
	files   []string
}

// add runs belfry why and compares the output with testdata/why/NAME.txt. With BELFRY_WHY=update it writes
// the file instead.
func (b *whyBook) add(name, what, job string, at ...any) {
	t := b.n.T
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

// TestWhy makes each story happen on a real node, and compares what belfry why prints.
func TestWhy(t *testing.T) {
	t.Parallel()
	n := newWhyNode(t)
	b := &whyBook{n: n}

	// These come first, because their time must pass.
	n.once("ran", "/ok")
	once := `{name: %s, schedule: {at: %q, timezone: Europe/Berlin},
target: {kind: http, config: {url: %q}}, retry: {%s}}`
	n.file(once, "retried", soon(n), n.target+"/flaky", "base: 1s")
	n.file(once, "retrying", soon(n), n.target+"/flaky", "base: 1h, cap: 1h, jitter: -1")
	n.file(once, "dead", soon(n), n.target+"/broken", "max_attempts: 2, backoff: none")
	n.once("rejected", "/rejects")
	n.once("gone", "/gone")
	n.once("hangs", "/hangs", "--timeout", "10m")
	n.once("accepted", "/accepts")
	n.once("to cancel", "/hangs", "--timeout", "10m")
	n.once("by hand", "/ok")
	for _, overlap := range []string{"skip", "queue", "replace"} {
		n.everySecond("overlap "+overlap, "/hangs", "--overlap", overlap, "--timeout", "10m")
	}
	for _, policy := range []string{"skip", "once", "all"} {
		n.file(`{name: missed %s, schedule: {every: 1s, timezone: Europe/Berlin}, overlap: allow,
target: {kind: http, config: {url: %q}}, missed: {policy: %s, max: 3, pace: 1ms}}`, policy, n.target+"/ok", policy)
	}
	n.everySecond("paused", "/ok")
	n.everySecond("in imports", "/ok", "--queue", "imports")
	n.everySecond("urgent", "/ok", "--queue", "imports", "--deadline", "1s")
	n.Good("queue", "pause", "imports", "--note", "the warehouse is being moved")
	nightly := `{name: %s, target: {kind: http, config: {url: %q}}, schedule: {cron: 30 2 * * *,
timezone: Europe/Berlin, dst: {gap: %s}, start_at: "2098-02-01T00:00:00Z", end_at: "2099-01-01T00:00:00Z",
calendars: [{dates: [12-25]}]}}`
	n.file(nightly, "nightly", n.target+"/ok", "skip")
	n.file(nightly, "shifted", n.target+"/ok", "shift")

	n.await("ran", "--state", "succeeded")
	b.add("ran", "It ran", "ran")
	n.await("retried", "--state", "succeeded")
	b.add("retried", "It ran, with its second attempt", "retried")
	n.await("retrying", "--due-to", soon(n))
	n.until(func() bool { return strings.Contains(n.Good("why", "retrying"), "retrying") })
	b.add("retrying", "An attempt failed, and the next one is to come", "retrying")
	dead := n.await("dead", "--state", "failed")
	b.add("dead", "It failed permanently: a dead letter", "dead")
	n.await("rejected", "--state", "failed")
	b.add("rejected", "Its target refused it", "rejected")
	n.Good("dlq", "discard", n.await("rejected").ID)
	b.add("discarded", "Its dead letter was discarded", "rejected")
	n.await("gone", "--state", "failed")
	b.add("gone", "Its target said that it is gone for ever", "gone")
	n.await("hangs", "--state", "running")
	b.add("running", "It runs", "hangs")
	n.await("accepted", "--state", "accepted")
	b.add("accepted", "Its target accepted it and has not reported", "accepted")
	n.Good("run", "cancel", n.await("to cancel", "--state", "running").ID)
	b.add("cancelled", "A user cancelled it", "to cancel")
	hand := strings.Fields(n.Good("job", "trigger", "by hand"))[1]
	n.await("by hand", "--state", "succeeded")
	n.until(func() bool { return strings.Contains(n.Good("run", "get", hand), "succeeded") })
	var triggered runView
	require.NoError(t, json.Unmarshal([]byte(n.Good("run", "get", hand, "-o", "json")), &triggered))
	b.add("triggered", "A user triggered it", "by hand", triggered.DueAt)
	b.add("run", "A run by its id", hand)
	n.file(`{name: yearly, schedule: {cron: 0 0 1 1 *, timezone: Europe/Berlin},
target: {kind: http, config: {url: %q}}, retry: {max_attempts: 1}}`, n.target+"/broken")
	n.Good("job", "trigger", "yearly")
	n.await("yearly", "--state", "failed")
	b.add("triggered-dead", "A trigger failed: the newest run, its dead letter, and the next occurrence", "yearly")
	n.create("waits", "/ok", "--cron", "0 0 1 1 *", "--queue", "imports")
	n.Good("job", "trigger", "waits")
	n.file(`{name: pulled, schedule: {at: %q, timezone: Europe/Berlin},
target: {kind: worker, config: {handler: send-invoice}}}`, soon(n))
	n.await("pulled", "--state", "due")
	b.add("no-worker", "It is due, and no worker asks for it", "pulled")
	b.add("triggered-waits", "A trigger waits for a paused queue", "waits")

	skipped := n.await("overlap skip", "--state", "skipped")
	b.add("overlap", "Skipped: the one before was still running", "overlap skip", skipped.DueAt)
	n.await("overlap queue", "--state", "running")
	waiting := n.await("overlap queue", "--state", "due")
	b.add("behind", "It waits for the one before to end", "overlap queue", waiting.DueAt)
	skipped = n.await("overlap queue", "--state", "skipped")
	b.add("queue-limit", "Skipped: one waits already", "overlap queue", skipped.DueAt)
	replaced := n.await("overlap replace", "--state", "cancelled")
	b.add("replaced", "A newer run replaced it", "overlap replace", replaced.DueAt)
	for _, name := range []string{"overlap skip", "overlap queue", "overlap replace"} {
		n.Good("job", "delete", name)
	}

	b.add("not-due", "It is not due yet", "nightly", "2098-06-01T02:30")
	b.add("dst-gap", "A change of the clock takes it away", "nightly", "2098-03-30T02:30")
	b.add("dst-shift", "A change of the clock shifts it", "shifted", "2098-03-30T02:30")
	b.add("calendar", "A calendar excludes it", "nightly", "2098-12-25T02:30")
	b.add("before-start", "Before start_at", "nightly", "2098-01-15T02:30")
	b.add("after-end", "After end_at", "nightly", "2099-06-01T02:30")
	b.add("no-occurrence", "The schedule has no such time", "nightly", "2098-06-01T02:31")
	b.add("created-later", "The job did not exist yet", "nightly", "2019-06-01T02:30")

	queued := n.await("in imports", "--state", "due")
	b.add("queue-paused", "Its queue is paused", "in imports", queued.DueAt)
	late := n.await("urgent", "--state", "due")
	n.until(func() bool { return n.now().Sub(*late.DueAt) > 1500*time.Millisecond })
	b.add("queue-paused-expired", "Its queue is paused, and its deadline has passed", "urgent", late.DueAt)
	n.Good("queue", "resume", "imports")
	expired := n.await("urgent", "--state", "skipped")
	b.add("expired", "Skipped: it could not start within its deadline", "urgent", expired.DueAt)

	paused := n.await("paused", "--state", "succeeded")
	n.Good("job", "pause", "paused", "--note", "the target is being moved")
	during := n.now().Truncate(time.Second).Add(3 * time.Second) // the next one may be claimed already
	n.until(func() bool { return n.now().After(during) })
	b.add("paused", "The job is paused", "paused", &during)
	b.add("paused-next", "The job is paused, and it is not due yet", "paused", n.inAnHour())
	require.True(t, paused.DueAt.Before(during))
	n.Good("job", "resume", "paused")
	b.add("was-paused", "Skipped: the job was paused", "paused", &during)

	n.Good("dlq", "redrive", dead.ID)
	n.until(func() bool {
		said := n.Good("why", "dead")
		return strings.Contains(said, "It was retried by hand") && strings.Contains(said, "failed: attempts")
	})
	b.add("redriven", "It was redriven, and failed again", "dead")

	var doomed jobView
	n.once("doomed", "/ok")
	n.await("doomed", "--state", "succeeded")
	require.NoError(t, json.Unmarshal([]byte(n.Good("job", "get", "doomed", "-o", "json")), &doomed))
	n.Good("job", "delete", "doomed")
	b.add("deleted-ran", "It ran, and its job was deleted since", doomed.ID)
	b.add("deleted", "The job was deleted before", doomed.ID, "2098-06-01T02:30")

	var dropped jobView
	n.file(once, "dropped", soon(n), n.target+"/rejects", "max_attempts: 1")
	n.await("dropped", "--state", "failed")
	require.NoError(t, json.Unmarshal([]byte(n.Good("job", "get", "dropped", "-o", "json")), &dropped))
	n.Good("job", "delete", "dropped")
	b.add("deleted-dead", "A dead letter of a deleted job", dropped.ID)

	b.missed()
	b.done()
}

// soon returns a time in a moment.
func soon(n *whyNode) string { return n.now().Add(500 * time.Millisecond).Format(time.RFC3339Nano) }

// missed stops the node until occurrences are missed, then starts it again.
func (b *whyBook) missed() {
	n, t := b.n, b.n.T
	n.stop()
	stopped := n.now()
	// Meanwhile, an API without a node answers.
	node := n.API
	n.API = clitest.On(t, New, n.pool)
	at := stopped.Add(4 * time.Second).Truncate(time.Second)
	require.Eventually(t, func() bool { return n.now().Sub(at) > 14*time.Second }, time.Minute, 100*time.Millisecond)
	b.add("down", "No node is alive", "missed skip", &at)
	n.API = node
	n.start()
	n.await("missed skip", "--state", "succeeded", "--due-from", n.now().Format(time.RFC3339))
	b.add("missed", "Missed while the cluster was down", "missed skip", &at)
	b.add("missed-once", "Missed while the cluster was down, and a newer one was caught up", "missed once", &at)
	caught := func() *time.Time {
		var all []runView
		out := n.Good("job", "runs", "missed once", "-o", "json", "--state", "succeeded", "--limit", "0",
			"--due-from", at.Format(time.RFC3339))
		require.NoError(t, json.Unmarshal([]byte(out), &all))
		for _, r := range all {
			if r.Origin == "missed" {
				return r.DueAt
			}
		}
		return nil
	}
	require.Eventually(t, func() bool { return caught() != nil }, time.Minute, 100*time.Millisecond)
	b.add("caught-up", "Missed while the cluster was down, and caught up", "missed once", caught())
	b.add("missed-max", "Missed, and more were than missed.max", "missed all", &at)
}

// done checks that no file is obsolete, and writes the stories for make why.
func (b *whyBook) done() {
	t := b.n.T
	found, err := os.ReadDir(filepath.Join("testdata", "why"))
	require.NoError(t, err)
	for _, f := range found {
		require.True(t, slices.Contains(b.files, f.Name()), "%s is no story any more; remove it", f.Name())
	}
	if name := os.Getenv("BELFRY_WHY_FILE"); name != "" {
		require.NoError(t, os.WriteFile(name, []byte(b.printed.String()), 0o600))
	}
}
