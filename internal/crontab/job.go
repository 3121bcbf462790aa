package crontab

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strings"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// Options say what jobs are made of lines.
type Options struct {
	URL    string // where the runs go; {name} and {user} are filled in
	Prefix string // begins the name of each job
}

// Jobs converts the entries of a crontab to jobs, in their order, and yields each with its line. Jobs that would have
// the same name are numbered.
func (o Options) Jobs(tab *Crontab) iter.Seq2[int, Job] {
	return func(yield func(int, Job) bool) {
		seen := map[string]int{}
		for i := range tab.Entries {
			name := o.Prefix + tab.Entries[i].name()
			if seen[name]++; seen[name] > 1 {
				name = fmt.Sprintf("%s-%d", name, seen[name])
			}
			if !yield(tab.Entries[i].Line, o.job(name, &tab.Entries[i])) {
				return
			}
		}
	}
}

// Job has the fields of the API that an entry needs, in the API's order.
type Job struct {
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels"`
	Schedule schedule.Spec     `json:"schedule"`
	Target   struct {
		Kind   string            `json:"kind"`
		Config map[string]string `json:"config"`
	} `json:"target"`
	Payload struct {
		Command     string            `json:"command"`
		Stdin       string            `json:"stdin,omitempty"`
		User        string            `json:"user,omitempty"`
		Environment map[string]string `json:"environment,omitempty"`
	} `json:"payload"`
	Overlap string         `json:"overlap"`
	Timeout string         `json:"timeout"`
	Retry   map[string]int `json:"retry"`
}

// JSON is the job as the API takes it.
func (j *Job) JSON() ([]byte, error) { return json.Marshal(j) }

func (o *Options) job(name string, e *Entry) Job {
	j := Job{Name: name, Schedule: e.Spec, Labels: map[string]string{"source": "crontab"}}
	if e.User != "" {
		j.Labels["user"] = e.User
	}
	if comment := []rune(e.Comment); len(comment) > 0 {
		j.Labels["comment"] = string(comment[:min(len(comment), 200)])
	}
	j.Target.Kind = "http"
	fill := strings.NewReplacer("{name}", url.PathEscape(name), "{user}", url.PathEscape(e.User))
	j.Target.Config = map[string]string{"url": fill.Replace(o.URL)}
	j.Payload.Command, j.Payload.Stdin, j.Payload.User, j.Payload.Environment = e.Command, e.Stdin, e.User, e.Env
	// As cron does: a command may overlap, may take long, and runs once.
	j.Overlap, j.Timeout, j.Retry = "allow", "1h", map[string]int{"max_attempts": 1}
	return j
}
