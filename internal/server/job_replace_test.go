package server_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func putBody(name string, priority int) string {
	return fmt.Sprintf(`{"name":%q,"schedule":"every 15m","target":{"kind":"noop"},"priority":%d}`, name, priority)
}

// TestOnlyCreateOnlyReplace: If-None-Match: * only creates, and If-Match: * only replaces.
func TestOnlyCreateOnlyReplace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.call("PUT", "/jobs/a", putBody("a", 0), "If-Match", "*")
	require.Equal(t, 412, a.status, "there is none to replace: %s", a.body)
	require.Equal(t, 404, b.call("GET", "/jobs/a", "").status)
	a = b.call("PUT", "/jobs/a", putBody("a", 0), "If-None-Match", "*")
	require.Regexp(t, `^/api/v1/jobs/job_\w+$`, a.header.Get("Location"))
	require.Equal(t, 201, a.status, "%s", a.body)
	a = b.call("PUT", "/jobs/a", putBody("a", 1), "If-None-Match", "*")
	require.Equal(t, 412, a.status, "it is there: %s", a.body)
	require.Equal(t, "precondition_failed", a.json(t)["code"])
	require.EqualValues(t, 1, b.call("GET", "/jobs/a", "").json(t)["version"])
	a = b.call("PUT", "/jobs/a", putBody("a", 1), "If-Match", "*")
	require.Empty(t, a.header.Values("Location"), "it is not new")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, 422, b.call("PUT", "/jobs/a", putBody("a", 1), "If-None-Match", `"2"`).status, "only a star")
}

// TestPutsOfOneNewNameMeet: of several PUTs at the same time one creates the job, and the others replace it.
func TestPutsOfOneNewNameMeet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const puts = 8
	for round := range 5 {
		name := fmt.Sprintf("new-%d", round)
		statuses := make([]int, puts)
		begin := make(chan struct{})
		var all sync.WaitGroup
		for i := range puts {
			all.Go(func() {
				<-begin
				statuses[i] = b.call("PUT", "/jobs/"+name, putBody(name, i)).status
			})
		}
		close(begin)
		all.Wait()
		counts := map[int]int{}
		for _, s := range statuses {
			counts[s]++
		}
		require.Equal(t, map[int]int{201: 1, 200: puts - 1}, counts)
		require.EqualValues(t, puts, b.call("GET", "/jobs/"+name, "").json(t)["version"])
	}
}

// TestAPutDoesNotRename: if the path has a name, the body must have the same name.
func TestAPutDoesNotRename(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.call("PUT", "/jobs/old", putBody("old", 0))
	require.Equal(t, 201, a.status, "%s", a.body)
	id := a.json(t)["id"].(string)
	a = b.call("PUT", "/jobs/old", putBody("new", 0))
	require.Equal(t, 422, a.status, "%s", a.body)
	require.Contains(t, string(a.body), `"field":"name"`)
	require.Equal(t, 404, b.call("GET", "/jobs/new", "").status)
	a = b.call("PUT", "/jobs/"+id, putBody("new", 0))
	require.Equal(t, 200, a.status, "by its id it is renamed: %s", a.body)
	require.Equal(t, id, b.call("GET", "/jobs/new", "").json(t)["id"])
}

// TestTheTagChangesWithEachChange: a pause and a resume change the ETag too, although the version stays.
func TestTheTagChangesWithEachChange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	created := b.call("POST", "/jobs", putBody("a", 0))
	require.Equal(t, 201, created.status)
	tags := []string{created.header.Get("ETag")}
	change := func(method, path, body string, header ...string) answer {
		a := b.call(method, "/jobs/a"+path, body, header...)
		require.Equal(t, 200, a.status, "%s", a.body)
		tag := a.header.Get("ETag")
		require.NotContains(t, tags, tag)
		read := b.call("GET", "/jobs/a", "").header.Get("ETag")
		require.Equal(t, tag, read, "the answer has the tag that is read later")
		tags = append(tags, tag)
		return a
	}
	change("POST", ":pause", "")
	change("POST", ":resume", "")
	for method, path := range map[string]string{"PUT": "", "PATCH": "", "DELETE": "", "POST": ":pause"} {
		body := map[string]string{"PUT": putBody("a", 1), "PATCH": `{"priority":1}`}[method]
		a := b.call(method, "/jobs/a"+path, body, "If-Match", tags[0])
		require.Equal(t, 412, a.status, "%s: it was paused and resumed meanwhile: %s", method, a.body)
	}
	require.EqualValues(t, 1, b.call("GET", "/jobs/a", "").json(t)["version"])
	change("PATCH", "", `{"priority":2}`, "If-Match", tags[2])
	change("PUT", "", putBody("a", 3), "If-Match", `"2"`)
	change("POST", ":pause", "", "If-Match", tags[4])
	for header, want := range map[string]int{
		`"2"`: 412, `"2-abc"`: 412, `"0"`: 412, "x": 422, `"3`: 200, `W/"3"`: 422, `"99999999999"`: 422,
	} {
		a := b.call("PATCH", "/jobs/a", `{"priority":3}`, "If-Match", header)
		require.Equal(t, want, a.status, "%s: %s", header, a.body)
	}
}
