package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// maxFile bounds a file of jobs.
const maxFile = 256 << 20

// fileJob is a job as a file has it.
type fileJob struct {
	name string
	at   string // file and line
	raw  []byte // JSON
}

// readJobs reads a file of jobs: YAML documents, each a job or a list of jobs.
func readJobs(stdin io.Reader, file string) ([]fileJob, error) {
	from := stdin
	if file != "-" {
		f, err := os.Open(file) //nolint:gosec // the file that the user names
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	where := file
	if file == "-" {
		where = "standard input"
	}
	docs, err := documents(io.LimitReader(from, maxFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	var out []fileJob
	for _, doc := range docs {
		n := doc.Content[0]
		jobs := n.Content
		switch {
		case n.Kind == yaml.MappingNode:
			jobs = []*yaml.Node{n}
		case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
			continue // an empty document
		case n.Kind != yaml.SequenceNode:
			return nil, fmt.Errorf("%s line %d: it is not a job, nor a list of jobs", where, n.Line)
		}
		for _, j := range jobs {
			at := fmt.Sprintf("%s line %d", where, j.Line)
			if j.Kind != yaml.MappingNode {
				return nil, fmt.Errorf("%s: it is not a job", at)
			}
			dropServerFields(j)
			raw, err := jsonOf(j)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", where, err)
			}
			var named struct {
				Name string `json:"name"`
			}
			if err := json.Unmarshal(raw, &named); err != nil {
				return nil, fmt.Errorf("%s: the name is not a text: %w", at, err)
			}
			out = append(out, fileJob{named.Name, at, raw})
		}
	}
	return out, nil
}

// readAll reads files of jobs whose names are all there, and are all different.
func readAll(cmd *cobra.Command, files []string) (out []fileJob, err error) {
	if len(files) == 0 {
		return nil, usagef("which file? %s -f FILE; - is the standard input", cmd.CommandPath())
	}
	seen := map[string]string{}
	for _, file := range files {
		jobs, err := readJobs(cmd.InOrStdin(), file)
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			if j.name == "" {
				return nil, fmt.Errorf("%s: the job has no name", j.at)
			}
			if other := seen[j.name]; other != "" {
				return nil, fmt.Errorf("%s: the job %s is also in %s; names are unique", j.at, j.name, other)
			}
			seen[j.name] = j.at
			out = append(out, j)
		}
	}
	return out, nil
}
