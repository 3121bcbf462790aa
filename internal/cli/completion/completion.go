// Package completion completes arguments and flags in a shell, with names from the server.
package completion

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

const (
	completeTimeout = 2 * time.Second // a shell must not wait longer
	completeMax     = 100
)

// named is an item of any list that has names.
type named struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Run     string `json:"run"`
	JobName string `json:"job_name"`
	State   string `json:"state"`
	Role    string `json:"role"`
}

// source is a list of the API that has names to complete.
type source struct {
	path  string
	query url.Values
	text  func(named) string // the word, a tab, and a description
}

// sources are the lists of names, by what Use calls them. dlq is RUN for the subcommands of dlq.
var sources = map[string]source{
	"JOB":    {"/jobs", url.Values{"page_size": {"100"}}, func(n named) string { return n.Name + "\t" + n.State }},
	"QUEUE":  {"/queues", nil, func(n named) string { return n.Name }},
	"SECRET": {"/secrets", nil, func(n named) string { return n.Name }},
	"KEY":    {"/keys", nil, func(n named) string { return n.ID + "\t" + n.Name + ", " + n.Role }},
	"RUN": {"/runs", url.Values{"page_size": {"50"}}, func(n named) string {
		return n.ID + "\t" + n.State + " " + n.JobName
	}},
	"dlq": {"/dead-letters", url.Values{"page_size": {"50"}}, func(n named) string { return n.Run + "\t" + n.JobName }},
}

// Add adds completion of arguments and flags to a command and all its subcommands.
func Add(cmd *cobra.Command) {
	noun, several := remote.Noun(cmd.Use)
	if cmd.HasParent() && cmd.Parent().Name() == "dlq" && noun == "RUN" {
		noun = "dlq"
	}
	if _, known := sources[noun]; known && cmd.ValidArgsFunction == nil {
		complete := func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 && !several {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(cmd, noun, begun), cobra.ShellCompDirectiveNoFileComp
		}
		cmd.ValidArgsFunction = complete
	} else if cmd.ValidArgsFunction == nil && noun != "FILE" {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { completeFlag(cmd, f) })
	cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { completeFlag(cmd, f) })
	for _, c := range cmd.Commands() {
		Add(c)
	}
}

func completeFlag(cmd *cobra.Command, f *pflag.Flag) {
	var words []string
	if choice, ok := f.Value.(*usage.Choice); ok {
		words = choice.Words
	} else if f.Name == "output" {
		words = remote.Outputs
	}
	noun := map[string]string{"job": "JOB", "queue": "QUEUE"}[f.Name]
	if words == nil && noun == "" {
		return
	}
	completion := func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		if noun != "" {
			return names(cmd, noun, begun), cobra.ShellCompDirectiveNoFileComp
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	_ = cmd.RegisterFlagCompletionFunc(f.Name, completion) // fails if the flag has a completion already
}

// names returns the names that begin with what was typed. It reports no error, because a shell would print
// it into the line that is being typed.
func names(cmd *cobra.Command, noun, begun string) (out []string) {
	r, err := remote.Connect(cmd, os.Getenv)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	from := sources[noun]
	query := remote.DropEmpty(from.query) // a copy
	if noun == "JOB" && begun != "" {
		query.Set("name", begun)
	}
	for raw, err := range r.List(ctx, from.path, query) {
		if err != nil || len(out) == completeMax {
			return out
		}
		var n named
		if json.Unmarshal(raw, &n) == nil && strings.HasPrefix(from.text(n), begun) {
			word, about, _ := strings.Cut(from.text(n), "\t")
			out = append(out, terminal.Clean(word)+"\t"+terminal.Clean(about))
		}
	}
	return out
}
