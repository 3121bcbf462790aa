package docs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryBlock executes or validates each code block of the documentation.
func TestEveryBlock(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	var (
		mu     sync.Mutex
		counts = map[string]int{}
		golang []block
		found  int
	)
	t.Run("pages", func(t *testing.T) {
		for _, name := range pages(t) {
			all, err := blocks(name, readPage(t, name))
			require.NoError(t, err)
			found += len(all)
			if len(all) == 0 {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				kinds, err := c.checkPage(t, all)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, k := range kinds {
					counts[k]++
				}
				for _, b := range all {
					if b.lang == "go" {
						golang = append(golang, b)
					}
				}
			})
		}
	})
	require.NoError(t, checkGoBlocks(t, golang))
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%4d  %s", counts[kind], kind)
		total += counts[kind]
	}
	t.Logf("%4d  in all", total)
	require.Greater(t, found, 80, "blocks are not found any more")
}

// checkPage checks the blocks of a page in order, and returns what each was checked as.
func (c *cluster) checkPage(t *testing.T, all []block) (kinds []string, err error) {
	t.Helper()
	files, printed, setup := shownFiles(all), "", ""
	for _, b := range all {
		kind := ""
		switch b.lang {
		case "sh":
			if slices.ContainsFunc(b.info, func(s string) bool { return slices.Contains(onAMachine, s) }) {
				kind, err = "sh, executed by test/deploy", checkSyntax(t, b)
				break
			}
			kind = "sh, executed"
			printed, err = c.runShell(t, b, files)
		case "output":
			kind = "output, compared"
			if !strings.Contains(printed, strings.TrimSpace(b.text)) {
				err = fmt.Errorf("%s: the block before it printed:\n%s", b, printed)
			}
		case "console":
			kind, err = "console, commands parsed", checkConsole(b)
		case "json":
			kind, err = c.newSpace(t).checkJSON(t, b)
		case "yaml":
			kind, err = c.newSpace(t).checkYAML(t, b)
		case "sql":
			kind, err = "sql, executed", c.checkSQL(t, b, setup)
			if slices.Contains(b.info, "setup") {
				setup += b.text
			}
		case "ini":
			kind, err = c.checkINI(t, b)
		case "go":
			kind = "go, compiled"
		case "duckdb":
			kind = "duckdb, executed by make test-archive"
		case "promql":
			kind = "promql, checked by test/deploy"
		case "text":
			kind, err = checkText(t, b)
		case "mermaid":
			kind = "mermaid: generated"
		default:
			err = fmt.Errorf("%s: no checker knows this language", b)
		}
		if err != nil {
			return kinds, err
		}
		if kind == "" {
			return kinds, fmt.Errorf("%s: an empty block", b)
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

// checkText compares messages with the code. Diagrams and other samples are not checked, but code must not hide there.
func checkText(t *testing.T, b block) (kind string, err error) {
	t.Helper()
	if b.option("like") != "" {
		return "text: messages, compared with the code", checkSample(t, b)
	}
	if line := code.FindString(b.text); line != "" {
		return "", fmt.Errorf("%s: %q is code; name its language", b, strings.TrimSpace(line))
	}
	return "text: diagrams and samples", nil
}

// code is the beginning of a line that a checker would know.
var code = regexp.MustCompile(`(?m)^\s*(\$ |belfry |bin/belfry |curl |make |go (run|build|get) |SELECT |CREATE |\{")`)

// TestTheCheckerFails: a mistake of each kind is found.
func TestTheCheckerFails(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for _, tc := range []struct{ page, want string }{
		{"```sh\nbelfry job create x --crn '0 2 * * *' --url https://example.com\n```\n", "--crn"},
		{"```sh\nbelfry bench steady --rate\n```\n", "--rate"},
		{"```sh\nbelfry job frobnicate x\n```\n", "frobnicate"},
		{"```sh\nmake no-such-target\n```\n", "no-such-target"},
		{"```sh\ncurl \"$URL/api/v1/nothing\"\n```\n", "404"},
		{"```sh\nif true\n```\n", "syntax error"},
		{"```sh\nno-such-program\n```\n", "command not found"},
		{"```sh\necho a\n```\n```output\nb\n```\n", "printed:\na"},
		{"```console\n$ belfry bench stead\n```\n", "stead"},
		{"```json\n{\"name\": \"x\", \"schedule\": \"61 * * * *\", \"target\": {\"kind\": \"http\"}}\n```\n", "schedule"},
		{"```json\n{\"kind\": \"http\", \"config\": {\"ulr\": \"https://example.com\"}}\n```\n", "ulr"},
		{"```json\n{\"cron\": \"0 9 * * *\", \"timezone\": \"Europe/Berlinn\"}\n```\n", "Berlinn"},
		{"```json\n{\"a\": 1}\n```\n", "neither a job nor a target"},
		{"```json response=get-self\n{\"nonsense\": 1}\n```\n", ".nonsense is not in the API"},
		{"```yaml\nlisten_on: 127.0.0.1:1\n```\n", "listen_on"},
		{"```yaml\nname: x\nschedule: every 1x\ntarget: {kind: http, config: {url: \"https://example.com\"}}\n```\n", "schedule"},
		{"```sql\nSELECT nothing FROM job;\n```\n", "nothing"},
		{"```sql fails=42601\nSELECT 1;\n```\n", "should fail"},
		{"```sql setup\nCREATE TEMP TABLE a AS SELECT 2 AS b;\n```\n```sql returns=1\nSELECT b FROM a;\n```\n", "returns 2"},
		{"```ini\nsynchronous_comit = on\n```\n", "synchronous_comit"},
		{"```ini\n[Service]\nExecStart=/usr/bin/belfry server --confg x\n```\n", "--confg"},
		{"```text like=internal/why\nIt has been due since forever and waits for Godot.\n```\n", "nothing in internal/why prints"},
		{"```text\nbelfry job list\n```\n", "is code; name its language"},
		{"```python\nx\n```\n", "no checker knows this language"},
		{"```json\n```\n", "an empty block"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			t.Parallel()
			all, err := blocks("x.md", tc.page)
			require.NoError(t, err)
			_, err = c.checkPage(t, all)
			require.ErrorContains(t, err, tc.want)
		})
	}
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		good := block{lang: "go", text: "c, err := belfry.New(\"\", \"\")\n"}
		require.NoError(t, checkGoBlocks(t, []block{good}))
		require.ErrorContains(t, checkGoBlocks(t, []block{good, {lang: "go", text: "belfry.Nothing()\n"}}), "belfry.Nothing")
	})
}
