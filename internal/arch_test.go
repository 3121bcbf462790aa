// Package internal_test checks the shape of the repository: which package may import what, and the sizes of files and
// packages. It reads the files of all modules, for all systems and build tags.
package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const (
	root   = ".."
	module = "github.com/belfry-dev/belfry/"

	maxFile    = 700  // lines of a Go file
	maxPackage = 3000 // lines of a package without tests, unless docs/architecture.md gives a reason
	maxSQL     = 140  // columns of a line of SQL; golangci-lint measures Go (lll)
)

// layers are what packages may import of Belfry: packages of these layers, and those that their row in the table names.
// "own" is what is in the same folder of internal. Tests may import everything; those of a client what the client may.
var layers = map[string]struct{ imports, why string }{
	"words":   {"", "words are pure: no I/O, clock or goroutine, and of Belfry only what their row names"},
	"oracle":  {"", "the oracle shares no code with what it judges, and computes nothing for it: only auditor asks"},
	"tool":    {"", "a tool knows nothing of what uses it, and of Belfry only what its row names"},
	"machine": {"words tool own", "machines never import each other: declare the interface you use; app joins them"},
	"store":   {"", "what has statements uses it, and app, which tells errors apart; it knows none of them"},
	"step":    {"words tool store", "a step of a run calls only what its row names: steps to its right"},
	"shared":  {"words tool shared", "targets share it, and it knows none of them; other machines do not use it"},
	"kind":    {"words tool shared", "targets know nothing of each other: target lists them, and app configures them"},
	"app":     {"words tool store step machine shared kind app", "app joins the machines; only cli/local, devserver and bench know app"},
	"ops":     {"words tool app", "it starts whole nodes, through app and config, and only cli/local calls it"},
	"client":  {"words client local", "client commands use sdk/go only, so that users can do the same; what starts a node is in cli/local"},
	"local":   {"words tool app ops", "a command calls a server through sdk/go, or a node through app: it never reaches into a machine"},
	"main":    {"", "main only runs what its row names, and nothing imports a command"},
	"sdk":     {"sdk", "clients are modules of their own, with few dependencies: they know nothing of the server"},
	"tests":   {"", "it is for tests"},
}

// row says what a package may import: of Belfry what its layer and ours allow, and of third parties what outside names.
// In words, outside has packages of the standard library too. "!" forbids what a shorter name would allow.
type row struct{ pkg, layer, ours, outside string }

// table has every package, without "internal/". "…/..." stands for the packages below it too, unless they have a row.
var table = []row{
	{"cmd/belfry", "main", "cli", ""},

	{"problem", "words", "", ""},
	{"schedule", "words", "", "io iter sync"},
	{"expr", "words", "", "cel.dev/cel-go sync"},
	{"job", "words", "expr problem schedule", ""},
	{"access", "words", "job problem", "context crypto/hmac hash/crc32"},
	{"archive", "words", "job", "context crypto/md5 github.com/parquet-go/parquet-go hash io iter math/big"},
	{"auditor", "words", "job ledger oracle schedule", ""},
	{"claim", "words", "job", "context"},
	{"crontab", "words", "schedule", "bufio io iter net/url path"},
	{"doctor", "words", "auditor job problem", ""},
	{"ledger", "words", "job schedule", ""},
	{"timeline", "words", "job ledger schedule", ""},
	{"trace", "words", "job", ""},
	{"why", "words", "auditor job ledger problem schedule", ""},
	{"oracle", "oracle", "", ""},

	{"archive/disk", "tool", "archive", ""},
	{"archive/s3", "tool", "archive", "github.com/minio/minio-go"},
	{"archiver", "tool", "archive auditor clock job", "github.com/klauspost/compress"},
	{"clock", "tool", "", ""},
	{"config", "tool", "access job", "github.com/knadh/koanf github.com/spf13/pflag go.yaml.in/yaml"},
	{"loop", "tool", "telemetry", ""},
	{"seal", "tool", "", "github.com/tink-crypto/tink-go"},
	{"share", "tool", "", ""},
	{"systemd", "tool", "clock", ""},
	{"tally", "tool", "job", ""},
	{"telemetry", "tool", "", ""},
	{"web", "tool", "", ""},

	{"engine/...", "machine", "", ""},
	{"member", "machine", "", ""},
	{"store", "store", "clock job schedule", "github.com/jackc/pgx"},
	{"path/...", "step", "", "github.com/jackc/pgx"},
	{"path/start", "step", "path/finish", "github.com/jackc/pgx"},
	{"path/decide.go", "words", "job schedule", ""}, // in each step
	{"postgres/...", "machine", "path/finish path/keep path/start store", "database/sql github.com/jackc/pgx github.com/pressly/goose"},
	{"pull", "machine", "", ""},
	{"server/...", "machine", "", ""},
	{"server/jobs", "machine", "", "github.com/danielgtaylor/huma"},
	{"server/oidc", "machine", "", "github.com/coreos/go-oidc"},
	{"server/rest", "machine", "", "github.com/danielgtaylor/huma"},
	{"tracing", "machine", "", "go.opentelemetry.io/proto/slim/otlp google.golang.org/protobuf"},

	{"target", "machine", "", ""},
	{"target/broker", "shared", "", ""},
	{"target/gate", "shared", "", ""},
	{"target/guard", "shared", "", "code.dny.dev/ssrf"},
	{"target/message", "shared", "", ""},
	{"target/secret", "shared", "", ""},
	{"target/settings", "shared", "", ""},
	{"target/throttle", "shared", "", ""},
	{"target/...", "kind", "", ""},
	{"target/amqp", "kind", "", "github.com/rabbitmq/amqp091-go"},
	{"target/command", "kind", "target/command/runner", ""},
	{"target/command/runner", "kind", "", "github.com/containerd/errdefs github.com/moby/moby"},
	{"target/http", "kind", "", "github.com/standard-webhooks/standard-webhooks"},
	{"target/kafka", "kind", "", "github.com/twmb/franz-go"},
	{"target/nats", "kind", "", "github.com/nats-io/nats.go"},

	{"app/...", "app", "", "github.com/prometheus/client_golang"},
	{"bench", "ops", "bench/scratch postgres", "github.com/charmbracelet/x github.com/prometheus/procfs github.com/vbauerster/mpb"},
	{"bench/scratch", "ops", "postgres store", "github.com/jackc/pgx"},
	{"devserver", "ops", "cli/privatefile cli/terminal sdk/go", "github.com/fergusstrange/embedded-postgres go.yaml.in/yaml"},

	{"cli/...", "client", "clock sdk/go", "charm.land/lipgloss github.com/charmbracelet/x github.com/spf13 go.yaml.in/yaml"},
	{"cli/release", "client", "", "github.com/jedisct1/go-minisign"},
	{"cli/terminal", "client", "clock", "charm.land/lipgloss github.com/charmbracelet/x github.com/vbauerster/mpb"},
	{"cli/local", "local", "cli/privatefile cli/terminal cli/usage", "github.com/spf13"},

	{"sdk/go/...", "sdk", "", ""},
	{"sdk/go/effects", "sdk", "", "database/sql"}, // in the users' own databases
	{"sdk/go/worker", "sdk", "", "go.opentelemetry.io/otel !go.opentelemetry.io/otel/sdk"},

	{"dev/...", "main", "", ""},
	{"dev/collector", "main", "", "go.opentelemetry.io/proto/slim/otlp google.golang.org/protobuf"},
	{"dev/man", "main", "cli", "github.com/spf13/cobra"},
	{"dev/openapi", "main", "server", ""},
	{"dev/probe", "main", "", "github.com/Shopify/toxiproxy github.com/jackc/pgx github.com/minio/minio-go " +
		"github.com/nats-io/nats.go github.com/rabbitmq/amqp091-go github.com/twmb/franz-go"},
	{"dev/prose", "main", "cli", "github.com/spf13/cobra"},
	{"dev/sbom", "main", "", "github.com/CycloneDX/cyclonedx-go"},
	{"dev/schema", "main", "postgres", "github.com/jackc/pgx"}, // it reads the catalogue

	{"internal", "tests", "", ""}, // this file
	{"archive/storetest", "tests", "", ""},
	{"cli/clitest", "tests", "", ""},
	{"clock/clocktest", "tests", "", ""},
	{"pgtest", "tests", "", ""},
	{"target/broker/brokertest", "tests", "", ""},
	{"target/targettest/...", "tests", "", ""},
	{"test/...", "tests", "", ""},
	{"tracing/tracingtest", "tests", "", ""},
}

const (
	// pure is what words may import of others.
	pure = "bytes cmp crypto/sha256 encoding/base32 encoding/base64 encoding/binary encoding/hex encoding/json errors fmt " +
		"github.com/google/uuid maps math math/bits regexp slices sort strconv strings time unicode unicode/utf8"
	// everywhere is what all other packages may import, except for clients.
	everywhere = "github.com/google/uuid golang.org/x"

	onlySQL = "SQL stands in internal/postgres, internal/store and the steps of a run (internal/path)"
)

// reasons are given for packages of others. Those in banned are for no package at all, not even in tests.
var (
	reasons = map[string]string{
		"database/sql":                   onlySQL,
		"github.com/jackc/pgx":           onlySQL,
		"github.com/pressly/goose":       onlySQL,
		"github.com/danielgtaylor/huma":  "operations are registered through server/rest; jobs describes schemas that no Go type can",
		"github.com/minio/minio-go":      "object storage is an archive.Store; its client is in archive/s3",
		"github.com/moby/moby":           "whoever has Docker's socket is root: only target/command/runner, a process of its own, has it",
		"github.com/parquet-go":          "the format of archived history is in archive",
		"github.com/stretchr/testify":    "it is for tests",
		"github.com/teambition/rrule-go": "it is for tests: it cannot be bounded (docs/decisions/0006)",
		"go.opentelemetry.io/otel/sdk":   "programs choose their SDK of OpenTelemetry: the client depends on the API only",
		"":                               "a package of others is known where the table names it; the client of a vendor has one package",
	}
	banned = map[string]string{
		"github.com/pkg/errors": "use errors and fmt.Errorf with %w",
		"log":                   "use log/slog",
		"math/rand":             "use math/rand/v2, or crypto/rand for secrets",
	}
)

// source is a Go or SQL file.
type source struct {
	path, dir string // from the root, with slashes; dir is without "internal/"
	lines     []string
	test      bool // of a package, or in a package that is for tests
	generated bool
	imports   []string
}

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if base := d.Name(); err == nil && d.IsDir() && name != root &&
			(strings.HasPrefix(base, ".") || base == "node_modules" || base == "testdata") {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" && filepath.Ext(name) != ".sql" {
			return err
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		relative, err := filepath.Rel(root, name)
		require.NoError(t, err)
		f := source{path: filepath.ToSlash(relative), lines: strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")}
		f.dir = strings.TrimPrefix(path.Dir(f.path), "internal/")
		f.test = strings.HasSuffix(f.path, "_test.go") || rowOf(f.dir).layer == "tests"
		if filepath.Ext(name) == ".go" {
			syntax, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly|parser.ParseComments)
			require.NoError(t, err)
			f.generated = ast.IsGenerated(syntax)
			for _, i := range syntax.Imports {
				f.imports = append(f.imports, strings.Trim(i.Path.Value, `"`))
			}
		}
		out = append(out, f)
		return nil
	}))
	require.Greater(t, len(out), 1000, "files are not found any more")
	return out
}

// rowOf returns the row of a package: its own, or the longest that covers it. Without one, the row is empty.
func rowOf(pkg string) (found row) {
	for _, r := range table {
		if r.pkg == pkg {
			return r
		}
		above, tree := strings.CutSuffix(r.pkg, "...")
		if tree && strings.HasPrefix(pkg+"/", above) && len(r.pkg) > len(found.pkg) {
			found = r
		}
	}
	return found
}

// TestArrows: each package has a row in the table, and imports only what the table allows.
func TestArrows(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, f := range sources(t) {
		if path.Ext(f.path) != ".go" {
			continue
		}
		pkg := f.dir
		if top(pkg) == "path" && path.Base(f.path) == "decide.go" {
			pkg = "path/decide.go" // a step may import what its decision may not
		}
		used[rowOf(pkg).pkg] = true
		if rowOf(pkg).layer == "" {
			t.Errorf("%s: the table has no row for its package: add one, with its layer", f.path)
			continue
		}
		for _, imported := range f.imports {
			if why := forbidden(pkg, imported, strings.HasSuffix(f.path, "_test.go")); why != "" {
				t.Errorf("%s: %s", f.path, why)
			}
		}
	}
	for _, r := range table {
		if !used[r.pkg] {
			t.Errorf("no package is covered by the row %q of the table", r.pkg)
		}
		if _, ok := layers[r.layer]; !ok {
			t.Errorf("the row %q has the layer %q, which does not exist", r.pkg, r.layer)
		}
	}
}

// forbidden returns why a package, or its tests, may not import something, and "" if it may.
func forbidden(pkg, imported string, test bool) string {
	from := rowOf(pkg)
	if why, ok := banned[imported]; ok {
		return "imports " + imported + "\n\t" + why
	}
	if from.layer == "tests" || test && from.layer != "sdk" {
		return ""
	}
	if ours, ok := strings.CutPrefix(imported, module); ok {
		return forbiddenOurs(from, pkg, strings.TrimPrefix(ours, "internal/"))
	}
	return forbiddenOutside(from, pkg, imported)
}

func forbiddenOurs(from row, pkg, imported string) string {
	allowed, to := strings.Fields(layers[from.layer].imports), rowOf(imported)
	if slices.Contains(allowed, to.layer) || slices.Contains(strings.Fields(from.ours), imported) ||
		slices.Contains(allowed, "own") && to.layer != "tests" && top(pkg) == top(imported) {
		return ""
	}
	why := layers[from.layer].why
	if to.layer != from.layer {
		why += "\n\t" + imported + ": " + layers[to.layer].why
	}
	return fmt.Sprintf("imports %s (layer %s), but %s (layer %s) may import only: %s\n\t%s: %s",
		imported, to.layer, pkg, from.layer, strings.Join(append(allowed, strings.Fields(from.ours)...), ", "), pkg, why)
}

// top is the folder of internal that a package is in.
func top(pkg string) string {
	name, _, _ := strings.Cut(pkg, "/")
	return name
}

func forbiddenOutside(from row, pkg, imported string) string {
	words := from.layer == "words" || from.layer == "oracle"
	standard := !strings.Contains(top(imported), ".")
	if standard && !words && imported != "database/sql" {
		return ""
	}
	allowed := strings.Fields(from.outside)
	switch {
	case words:
		allowed = append(allowed, strings.Fields(pure)...)
	case from.layer != "sdk":
		allowed = append(allowed, strings.Fields(everywhere)...)
	}
	within := func(prefix string) bool {
		return imported == prefix || !standard && strings.HasPrefix(imported, prefix+"/")
	}
	if slices.ContainsFunc(allowed, within) &&
		!slices.ContainsFunc(allowed, func(s string) bool { return s[0] == '!' && within(s[1:]) }) {
		return ""
	}
	why := reasons[""]
	if words {
		why = layers[from.layer].why
	}
	for prefix, reason := range reasons {
		if prefix != "" && within(prefix) {
			why = reason
		}
	}
	return fmt.Sprintf("imports %s, which is not in the row of %s (layer %s)\n\t%s", imported, pkg, from.layer, why)
}

// TestForbidden: the table stops what it must stop, and names the reason.
func TestForbidden(t *testing.T) {
	t.Parallel()
	require.Empty(t, rowOf("unknown"))
	for _, c := range []struct {
		pkg, imported string
		test          bool
		want          string // "" is allowed
	}{
		{"engine", module + "internal/engine/wheel", false, ""},
		{"engine", module + "internal/pull", false, "machines never import each other"},
		{"engine", module + "internal/pull", true, ""},
		{"engine", module + "internal/oracle", false, "only auditor asks"},
		{"engine", module + "internal/target/guard", false, "other machines do not use it"},
		{"engine", module + "internal/app", false, "only cli/local, devserver and bench know app"},
		{"engine", module + "internal/pgtest", false, "it is for tests"},
		{"engine", module + "cmd/belfry", false, "nothing imports a command"},
		{"engine", "github.com/jackc/pgx/v5/pgxpool", false, onlySQL},
		{"engine", "database/sql", false, onlySQL},
		{"engine", "github.com/stretchr/testify/require", false, "it is for tests"},
		{"engine", "log", true, "use log/slog"},
		{"engine", "math/rand/v2", false, ""},
		{"engine", module + "internal/store", false, "what has statements uses it"},
		{"path/finish", module + "internal/store", false, ""},
		{"path/finish", module + "internal/path/keep", false, "steps to its right"},
		{"path/decide.go", module + "internal/store", false, "words are pure"},
		{"path/decide.go", "github.com/jackc/pgx/v5", false, "layer words"},
		{"job", module + "internal/clock", false, "words are pure"},
		{"job", "os", false, "words are pure"},
		{"job", "math/rand/v2", false, "words are pure"},
		{"target", module + "internal/target/kafka", false, ""},
		{"target/nats", module + "internal/target/kafka", false, "targets know nothing of each other"},
		{"target/nats", module + "internal/target/targettest", false, "it is for tests"},
		{"server/jobs", "github.com/danielgtaylor/huma/v2", false, ""},
		{"server/cluster", "github.com/danielgtaylor/huma/v2", false, "registered through server/rest"},
		{"cli/bulk", module + "internal/config", false, "client commands use sdk/go only"},
		{"cli/local", module + "internal/postgres", false, "never reaches into a machine"},
		{"sdk/go/worker", "go.opentelemetry.io/otel/trace", false, ""},
		{"sdk/go/worker", "go.opentelemetry.io/otel/sdk/trace", true, "programs choose their SDK"},
		{"sdk/go/worker", module + "internal/job", false, "know nothing of the server"},
	} {
		got := forbidden(c.pkg, c.imported, c.test)
		if c.want == "" {
			require.Empty(t, got)
		}
		require.Contains(t, got, c.want, "%s imports %s", c.pkg, c.imported)
	}
}

// TestSizes: a file is one story, and a package can be read.
func TestSizes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	require.NoError(t, err)
	_, allowed, _ := strings.Cut(string(page), "\n## Packages over 3,000 lines\n")
	packages := map[string]int{}
	for _, f := range sources(t) {
		switch {
		case path.Ext(f.path) == ".sql":
			for i, line := range f.lines {
				if n := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")); n > maxSQL {
					t.Errorf("%s:%d has %d columns of at most %d", f.path, i+1, n, maxSQL)
				}
			}
		case f.generated:
		case len(f.lines) > maxFile:
			t.Errorf("%s has %d lines of at most %d", f.path, len(f.lines), maxFile)
		case !f.test:
			packages[path.Dir(f.path)] += len(f.lines)
		}
	}
	for name, n := range packages {
		if n > maxPackage && !strings.Contains(allowed, "\n- `"+name+"`: ") {
			t.Errorf("%s has %d lines of at most %d, or of more with a reason in docs/architecture.md", name, n, maxPackage)
		}
	}
}
