package cli_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
)

// TestCommandsOfTheUI: the command line accepts each command that the web UI shows.
func TestCommandsOfTheUI(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../web/src/lib/commands.ts")
	require.NoError(t, err)
	lines := regexp.MustCompile("(?m)['\"`]belfry (.*)['\"`],$").FindAllStringSubmatch(string(text), -1)
	require.Len(t, lines, strings.Count(string(text), "belfry "), "each line has one command")
	for _, line := range lines {
		command := regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllString(line[1], "word")
		command, _, _ = strings.Cut(command, " <") // what the shell reads
		var args []string
		for _, word := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(command, -1) {
			args = append(args, strings.Trim(word, "'"))
		}
		cmd, rest, err := cli.New("test").Find(args)
		require.NoError(t, err, command)
		require.True(t, cmd.Runnable(), command)
		require.NoError(t, cmd.ParseFlags(rest), command)
		require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), command)
		require.NoError(t, cmd.ValidateRequiredFlags(), command)
	}
}
