package main

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	completeTime = 2 * time.Second // a shell that waits longer is a nuisance
	completeMost = 100
)

// named is anything that has a name.
type named struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Run     string `json:"run"`
	JobName string `json:"job_name"`
	State   string `json:"state"`
	Role    string `json:"role"`
}

// sources are where the names of things are listed, by what Use calls them.
var sources = map[string]struct {
	path  string
	query url.Values
	text  func(named) string // the word, and behind a tab what it is
}{
	"JOB":    {"/jobs", url.Values{"page_size": {"100"}}, func(n named) string { return n.Name + "\t" + n.State }},
	"QUEUE":  {"/queues", nil, func(n named) string { return n.Name }},
	"SECRET": {"/secrets", nil, func(n named) string { return n.Name }},
	"KEY":    {"/keys", nil, func(n named) string { return n.ID + "\t" + n.Name + ", " + n.Role }},
	"RUN":    {"/runs", url.Values{"page_size": {"50"}}, func(n named) string { return n.ID + "\t" + n.State + " " + n.JobName }},
	"dlq":    {"/dead-letters", url.Values{"page_size": {"50"}}, func(n named) string { return n.Run + "\t" + n.JobName }},
}

// complete teaches shells the arguments and flags of a command and of all below it.
func complete(cmd *cobra.Command) {
	_, noun, _ := strings.Cut(cmd.Use, " ")
	noun, _, _ = strings.Cut(strings.Trim(noun, "[]"), " ")
	single := !strings.HasSuffix(noun, "...")
	noun = strings.TrimRight(noun, ".]")
	if cmd.HasParent() && cmd.Parent().Name() == "dlq" && noun == "RUN" {
		noun = "dlq"
	}
	if _, known := sources[noun]; known && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if single && len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(cmd, noun, begun), cobra.ShellCompDirectiveNoFileComp
		}
	} else if cmd.ValidArgsFunction == nil && noun != "FILE" {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { completeFlag(cmd, f) })
	cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { completeFlag(cmd, f) })
	for _, c := range cmd.Commands() {
		complete(c)
	}
}

func completeFlag(cmd *cobra.Command, f *pflag.Flag) {
	var words []string
	noun := map[string]string{"job": "JOB", "queue": "QUEUE"}[f.Name]
	switch v := f.Value.(type) {
	case *choice:
		words = v.words
	default:
		if f.Name == "output" {
			words = []string{"table", "json", "yaml"}
		}
	}
	if words == nil && noun == "" {
		return
	}
	_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) { // there is one already
		if noun != "" {
			return names(cmd, noun, begun), cobra.ShellCompDirectiveNoFileComp
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	})
}

// names are those that begin as what was typed. What fails is not told: a shell
// shows it amidst the line.
func names(cmd *cobra.Command, noun, begun string) (out []string) {
	r, err := connect(cmd, os.Getenv)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	from := sources[noun]
	query := url.Values{}
	for name, values := range from.query {
		query[name] = values
	}
	if noun == "JOB" && begun != "" {
		query.Set("name", begun)
	}
	for raw, err := range r.List(ctx, from.path, query) {
		if err != nil || len(out) == completeMost {
			return out
		}
		var n named
		if json.Unmarshal(raw, &n) == nil && strings.HasPrefix(from.text(n), begun) {
			word, about, _ := strings.Cut(from.text(n), "\t")
			out = append(out, clean(word)+"\t"+clean(about))
		}
	}
	return out
}
