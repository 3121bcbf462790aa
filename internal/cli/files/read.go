package files

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/cli/yamljson"
)

// maxFile is the maximum size of a file of jobs.
const maxFile = 256 << 20

// Job is a job of a file.
type Job struct {
	Name string
	At   string // file and line
	Raw  []byte // JSON
	node *yaml.Node
}

// withLine adds its line to the name of a field, or that of what contains it, unless it is the first line of the job.
func (j *Job) withLine(field string) string {
	line := 0
	parts := strings.FieldsFunc(field, func(r rune) bool { return strings.ContainsRune(".[]", r) })
	for n := j.node; n != nil; n, parts = child(n, parts[0]), parts[1:] {
		line = n.Line
		if len(parts) == 0 {
			break
		}
	}
	if j.node == nil || line == j.node.Line {
		return field
	}
	return fmt.Sprintf("%s (line %d)", field, line)
}

// child returns a field of an object or an element of a list; nil: there is none.
func child(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	if i, err := strconv.Atoi(name); err == nil && n.Kind == yaml.SequenceNode && i >= 0 && i < len(n.Content) {
		return n.Content[i]
	}
	return nil
}

// Read reads a file of jobs: YAML documents, each a job or a list of jobs. The file - is stdin.
func Read(stdin io.Reader, file string) (jobs []Job, err error) {
	where := file
	if file == "-" {
		where = "standard input"
	}
	from, err := open(stdin, file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }()
	docs, err := yamljson.Documents(io.LimitReader(from, maxFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	for _, doc := range docs {
		n := doc.Content[0]
		items := n.Content
		switch {
		case n.Kind == yaml.MappingNode:
			items = []*yaml.Node{n}
		case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
			continue // an empty document
		case n.Kind != yaml.SequenceNode:
			return nil, fmt.Errorf("%s line %d: it is not a job, nor a list of jobs", where, n.Line)
		}
		for _, item := range items {
			j, err := readJob(where, item)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

func readJob(where string, n *yaml.Node) (Job, error) {
	at := fmt.Sprintf("%s line %d", where, n.Line)
	if n.Kind != yaml.MappingNode {
		return Job{}, fmt.Errorf("%s: it is not a job", at)
	}
	dropServerFields(n)
	raw, err := yamljson.ToJSON(n)
	if err != nil {
		return Job{}, fmt.Errorf("%s: %w", where, err) // the error names the line
	}
	var named struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(raw, &named); err != nil {
		return Job{}, fmt.Errorf("%s: the name is not a string: %w", at, err)
	}
	return Job{named.Name, at, raw, n}, nil
}

// open opens the file that the user names. The file - is stdin.
func open(stdin io.Reader, file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(stdin), nil
	}
	f, err := os.Open(file) //nolint:gosec // the user names it
	if err != nil {
		return nil, usage.Errorf("the file cannot be read: %w; is its name right?", err)
	}
	return f, nil
}

// expand replaces directories by their YAML files, including those in subdirectories: --prune would delete their jobs.
func expand(files []string) (out []string, err error) {
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || !info.IsDir() {
			out = append(out, file) // Read explains what is wrong with it
			continue
		}
		before := len(out)
		err := filepath.WalkDir(file, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && path != file && strings.HasPrefix(d.Name(), "."):
				return fs.SkipDir
			case !d.IsDir() && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)):
				out = append(out, path)
			}
			return nil
		})
		if err != nil {
			return nil, usage.Errorf("-f %s: the directory cannot be read: %w", file, err)
		}
		if len(out) == before {
			return nil, usage.Errorf("-f %s: the directory has no .yaml or .yml files", file)
		}
	}
	return out, nil
}

// readAll reads files of jobs and checks that each job has a name and that no name occurs twice.
func readAll(cmd *cobra.Command, files []string) (out []Job, err error) {
	if len(files) == 0 {
		return nil, usage.Errorf("which file? %s -f FILE; - is the standard input", cmd.CommandPath())
	}
	if files, err = expand(files); err != nil {
		return nil, err
	}
	seen := map[string]string{}
	for _, file := range files {
		jobs, err := Read(cmd.InOrStdin(), file)
		if err != nil {
			return nil, err
		}
		if len(jobs) == 0 {
			return nil, usage.Errorf("-f %s: the file has no jobs; write one, or leave the file out", file)
		}
		for _, j := range jobs {
			if j.Name == "" {
				return nil, fmt.Errorf("%s: the job has no name", j.At)
			}
			if other := seen[j.Name]; other != "" {
				return nil, fmt.Errorf("%s: the job %s is also in %s; names are unique", j.At, j.Name, other)
			}
			seen[j.Name] = j.At
			out = append(out, j)
		}
	}
	return out, nil
}
