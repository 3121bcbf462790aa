package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli"
)

// The blocks find this program under the names of the commands that they call.
const asProgram = "BELFRY_DOCS_ROOT" // the root of the repository, set for blocks only

func TestMain(m *testing.M) {
	repository := os.Getenv(asProgram)
	if repository == "" {
		os.Exit(m.Run())
	}
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	err := fmt.Errorf("no stand-in for %s", name)
	switch name {
	case "belfry":
		if !parseOnly(args) {
			os.Exit(cli.Main("docs"))
		}
		err = parseCommand(args)
	case "make":
		err = checkMake(repository, args)
	case "go":
		err = checkGo(repository, args)
	case "services":
		err = checkServices(repository, args)
	case "run": // .ci/run
		_, err = os.Stat(filepath.Join(repository, ".ci/run"))
	case "crontab":
		_, err = fmt.Fprintln(os.Stdout, "30 2 * * * /usr/local/bin/dump --all")
	case "curl": // an answer that is not a success fails the block
		args = append([]string{"curl", "--silent", "--show-error", "--fail-with-body"}, args...)
		err = syscall.Exec("/usr/bin/curl", args, os.Environ())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// notRun are the commands that a block cannot run, with the reason. Their flags and arguments are parsed.
var notRun = map[string]string{
	"server":   "serves until it is stopped",
	"dev":      "serves until it is stopped; dev/quickstart runs it",
	"bench":    "needs a scratch database and minutes",
	"login":    "asks for a key",
	"migrate":  "the database is migrated, and its owner's URL is in a file that is not there",
	"doctor":   "its exit code is about the machine",
	"run logs": "only commands have logs, and the node runs none",
	"job edit": "without flags it opens an editor",
}

func parseOnly(args []string) bool {
	line := strings.Join(args, " ")
	for command := range notRun {
		if line == command || strings.HasPrefix(line, command+" ") {
			return command != "job edit" || len(args) == 3
		}
	}
	return false
}

// parseCommand reports whether belfry would accept the command line: the command, its flags and its arguments.
func parseCommand(args []string) error {
	command, rest, err := newRoot().Find(args)
	if err != nil {
		return err
	}
	if !command.Runnable() || command.HasSubCommands() && len(command.Commands()) > 0 && command.Args == nil {
		return fmt.Errorf("belfry %s does nothing by itself", strings.Join(args, " "))
	}
	if err := command.ParseFlags(rest); err != nil {
		return fmt.Errorf("belfry %s: %w", strings.Join(args, " "), err)
	}
	validate := command.Args
	if validate == nil {
		validate = cobra.ArbitraryArgs
	}
	if err := validate(command, command.Flags().Args()); err != nil {
		return fmt.Errorf("belfry %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// newRoot is the tree of commands with completion, which cobra adds when a command runs.
func newRoot() *cobra.Command {
	c := cli.New("docs")
	c.InitDefaultCompletionCmd()
	return c
}

// checkMake looks for the targets and variables in the Makefile.
func checkMake(repository string, args []string) error {
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		return err
	}
	for _, word := range args {
		pattern := `(?m)^` + regexp.QuoteMeta(word) + `:`
		if name, _, ok := strings.Cut(word, "="); ok {
			pattern = `\$[({]` + regexp.QuoteMeta(name) + `[)}]|\bor \$\(` + regexp.QuoteMeta(name)
		}
		if !regexp.MustCompile(pattern).Match(makefile) {
			return fmt.Errorf("make: the Makefile has no target or variable %q", word)
		}
	}
	return nil
}

// checkGo looks for the packages and modules that go is called with. CI builds and tests them.
func checkGo(repository string, args []string) error {
	modules := []string{"github.com/belfry-dev/belfry/sdk/go"}
	for _, word := range args[1:] {
		if path, ok := strings.CutPrefix(word, "./"); ok && path != "..." {
			if _, err := os.Stat(filepath.Join(repository, path)); err != nil {
				return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
			}
		}
		if strings.Contains(word, ".dev/") || strings.HasPrefix(word, "github.com/") {
			if module, _, _ := strings.Cut(word, "@"); !slices.Contains(modules, module) {
				return fmt.Errorf("go %s: no module %s", strings.Join(args, " "), module)
			}
		}
	}
	if !slices.Contains([]string{"build", "test", "get", "run", "install"}, args[0]) {
		return fmt.Errorf("go %s is not known here", args[0])
	}
	return nil
}

// checkServices looks for the words of dev/services in its help.
func checkServices(repository string, args []string) error {
	help, err := exec.CommandContext(context.Background(), filepath.Join(repository, "dev/services"), "help").Output()
	if err != nil {
		return err
	}
	for _, word := range args {
		if !regexp.MustCompile(`(?m)(^|\s)` + regexp.QuoteMeta(word) + `(\s|$)`).Match(help) {
			return fmt.Errorf("dev/services: no word %q in its help", word)
		}
	}
	return nil
}
