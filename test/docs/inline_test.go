package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

var (
	codeSpan    = regexp.MustCompile("`([^`\n]+)`")
	fenced      = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	commandName = regexp.MustCompile(`^[a-z][a-z|-]*$`)
	flagName    = regexp.MustCompile(`^--[a-z][a-z-]*`)
)

// TestInlineCommands: commands of belfry and targets of make that stand within the text exist, and so do their flags.
// Arguments are not checked, because the text shortens them.
func TestInlineCommands(t *testing.T) {
	t.Parallel()
	repository, err := filepath.Abs(root)
	require.NoError(t, err)
	checked := 0
	for _, name := range pages(t) {
		text := fenced.ReplaceAllString(readPage(t, name), "")
		for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(span[1])
			switch {
			case len(words) < 2:
				continue
			case words[0] == "belfry":
				err = checkInline(newRoot(), words[1:])
			case words[0] == "make":
				err = checkMake(repository, makeWords(words[1:]))
			default:
				continue
			}
			checked++
			if err != nil {
				t.Errorf("%s: `%s`: %v", name, span[1], err)
			}
		}
	}
	t.Logf("%d inline commands", checked)
	require.Greater(t, checked, 100, "they are not found any more")
}

// checkInline follows the words of a command line down the tree of commands. a|b names two of them.
func checkInline(command *cobra.Command, words []string) error {
	for i, word := range words {
		if flag := flagName.FindString(word); flag != "" {
			if command.Flags().Lookup(flag[2:]) == nil && command.InheritedFlags().Lookup(flag[2:]) == nil &&
				command.PersistentFlags().Lookup(flag[2:]) == nil && flag != "--help" && flag != "--version" {
				return fmt.Errorf("belfry %s has no flag %s", command.Name(), flag)
			}
			continue
		}
		if !command.HasSubCommands() || !commandName.MatchString(word) {
			continue
		}
		for _, alternative := range strings.Split(word, "|") {
			next, _, err := command.Find([]string{alternative})
			if err != nil || next == command {
				return fmt.Errorf("belfry %s has no command %s", command.Name(), alternative)
			}
			if err := checkInline(next, words[i+1:]); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// makeWords are the targets and variables of a call of make, without the values of variables.
func makeWords(words []string) (out []string) {
	for _, w := range words {
		if strings.Contains(w, "=") || commandName.MatchString(w) || strings.Contains(w, "/") {
			out = append(out, strings.Trim(w, "[]"))
		}
	}
	return out
}

func TestInlineCommandsFail(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"job frobnicate":           "has no command frobnicate",
		"job create --crn":         "has no flag --crn",
		"secret set|list|destroy":  "has no command destroy",
		"bench stead --jobs 50000": "has no command stead",
	} {
		require.ErrorContains(t, checkInline(newRoot(), strings.Fields(line)), want)
	}
	require.NoError(t, checkInline(newRoot(), strings.Fields("job create NAME --cron '0 2 * * *' …")))
}
