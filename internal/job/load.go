package job

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// Filter selects jobs. A zero field selects all.
type Filter struct {
	Labels []Label `json:"labels,omitempty"` // all of them
	State  State   `json:"state,omitempty"`
	Name   string  `json:"name,omitempty"` // a substring, in any case
	Target string  `json:"target,omitempty"`
	Queue  string  `json:"queue,omitempty"`
}

// Empty reports whether the filter selects all jobs.
func (f *Filter) Empty() bool {
	return len(f.Labels) == 0 && f.State == 0 && f.Name == "" && f.Target == "" && f.Queue == ""
}

// List returns a list of the jobs that the filter selects, in the order of their ids.
func (f *Filter) List(namespace uuid.UUID) ListParams {
	return ListParams{
		Namespace: namespace, Labels: f.Labels, State: f.State, Name: f.Name, Target: f.Target, Queue: f.Queue,
	}
}

// LoadParams asks how many runs are due in each step of a range of time.
type LoadParams struct {
	Namespace uuid.UUID
	Filter    Filter
	From, To  time.Time // zero: from the next full step on, for a day
	Step      time.Duration
	Ahead     time.Duration // instead of the others: one step, from the current instant on
}

// The bounds of a load.
const (
	MaxLoadSteps = 7 * 24 * 60
	defaultLoad  = 24 * time.Hour
	hotSteps     = 10 // busiest steps of a load
	hotSchedules = 5  // schedules of each of them
)

// At fills in the defaults and aligns the range with its steps. It reports what is wrong with it at an instant.
func (p *LoadParams) At(now time.Time) error {
	if p.Ahead > 0 {
		p.From, p.To, p.Step = now, now.Add(p.Ahead), p.Ahead
		return nil
	}
	p.Step = cmp.Or(p.Step, time.Minute)
	first := now.Truncate(p.Step)
	if p.From.IsZero() {
		p.From = first.Add(p.Step)
	}
	p.From = p.From.Truncate(p.Step)
	if p.To.IsZero() {
		p.To = p.From.Add(defaultLoad)
	}
	if to := p.To.Truncate(p.Step); to.Before(p.To) {
		p.To = to.Add(p.Step)
	}
	var c problem.Checker
	if p.From.Before(first) {
		c.Add("from", "it has passed", "use a later time, or leave it out for the next full step")
	}
	if !p.From.Before(p.To) {
		c.Add("to", "it is not after from", "use a later time, or leave it out for a day after from")
	}
	if p.To.Sub(p.From) > MaxLoadSteps*p.Step {
		c.Add("to", "the range has more than 10080 steps", "use an earlier time, or step=1h")
	}
	return c.Err()
}

// Load is how many runs are due in each step of a range of time.
type Load struct {
	From, To time.Time
	Step     time.Duration
	Counts   []int64
	Exact    bool
	Fraction float64   // of the jobs, that were read; the counts are scaled by it
	Hot      []HotStep // the busiest first
}

// HotStep is a busy step of a load.
type HotStep struct {
	At        time.Time
	Count     int64
	Schedules []LoadSchedule // with the most runs first
}

// LoadSchedule is a schedule in a busy step.
type LoadSchedule struct {
	Schedule *schedule.Schedule
	Jobs     int64
	Runs     int64 // due in the step, of these jobs
}

// LoadJobs are jobs that share a schedule, and what bounds their occurrences.
type LoadJobs struct {
	Schedule string     // canonical: see schedule.Key
	From     *time.Time // no occurrence before; nil: no bound
	End      *time.Time // none at this time or later; nil: no bound
	Jobs     int64
}

// LoadInput is what a load is computed from.
type LoadInput struct {
	From, To time.Time // aligned: see LoadParams.At
	Step     time.Duration
	Now      time.Time // occurrences before it do not count
	Jobs     []LoadJobs
	Planned  []PlannedRuns // that the schedules of Jobs do not have
	Fraction float64       // of all jobs, that are in Jobs
	Exact    bool          // Jobs and Planned are complete
	Compile  func(text string) (*schedule.Schedule, error)
	Budget   int // occurrences to visit; 0 means LoadBudget
}

// PlannedRuns are runs that are planned for one time.
type PlannedRuns struct {
	DueAt time.Time
	Runs  int64
}

// LoadBudget bounds the work of one load to a few tenths of a second. Compiling a schedule costs as much as visiting
// compileCost occurrences, and counting an interval as much as visiting one for each intervalCost steps.
const (
	LoadBudget   = 1_000_000
	compileCost  = 12
	intervalCost = 32
)

// CountLoad counts the runs of each step. Its work depends on the number of schedules, not of jobs. Intervals are
// counted by arithmetic, so that a few fast ones do not use up the budget. If there are too many other schedules, it
// visits some of those and scales their counts.
func CountLoad(in LoadInput) Load {
	steps := int(in.To.Sub(in.From) / in.Step)
	c := loadCounter{LoadInput: in, sums: make([]float64, steps), counted: make([]float64, steps)}
	visited, read, all := c.visit()
	out := Load{From: in.From, To: in.To, Step: in.Step, Exact: in.Exact && all, Fraction: in.Fraction * read}
	scale := in.Fraction * visited
	for i, n := range c.counted {
		c.sums[i] += n * visited // these are scaled by the fraction of the jobs that were read, and no more
	}
	for _, p := range in.Planned {
		if i := int(p.DueAt.Sub(in.From) / in.Step); !p.DueAt.Before(in.From) && i < len(c.sums) {
			c.sums[i] += float64(p.Runs) * scale // these are not scaled
		}
	}
	out.Counts = make([]int64, len(c.sums))
	sums, before := 0.0, int64(0)
	for i, sum := range c.sums { // each rounds what the steps up to it have, so that the sum is right
		sums += sum
		total := scaled(sums, scale)
		out.Counts[i], before = total-before, total
	}
	out.Hot = c.hot(out.Counts, scale)
	return out
}

func scaled(n, fraction float64) int64 {
	if fraction <= 0 {
		return 0
	}
	return int64(math.Round(n / fraction))
}

// loadCounter adds up the occurrences of one schedule after the other.
type loadCounter struct {
	LoadInput
	sums    []float64 // runs by step, of schedules whose occurrences are visited
	counted []float64 // the same of intervals
	lists   []loadList
	budget  int
}

// loadList is what one schedule adds.
type loadList struct {
	schedule *schedule.Schedule
	interval bool
	steps    []loadStep // in order
}

type loadStep struct {
	step       int
	jobs, runs int64
}

// visit counts the schedules, intervals first, until the budget is used up. It returns the fraction of the jobs whose
// schedules were counted: visited of those without an interval, and read of all. all is false if some were not, or could
// not be read.
func (c *loadCounter) visit() (visited, read float64, all bool) {
	groups := map[string][]LoadJobs{}
	var order []string
	total := int64(0)
	for _, j := range c.Jobs {
		if groups[j.Schedule] == nil {
			order = append(order, j.Schedule)
		}
		groups[j.Schedule] = append(groups[j.Schedule], j)
		total += j.Jobs
	}
	if total == 0 {
		return 1, 1, true
	}
	c.budget = cmp.Or(c.Budget, LoadBudget)
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(restLast(a), restLast(b)) })
	counted, intervals, all, cut := int64(0), int64(0), true, false
	for _, text := range order {
		c.budget -= compileCost
		if cut = c.budget <= 0; cut {
			break
		}
		s, err := c.Compile(text)
		if err != nil {
			all = false
			continue
		}
		if _, ok := s.Count(c.From, c.From); ok {
			c.addInterval(s, groups[text])
			intervals += jobsOf(groups[text])
			continue
		}
		due, complete := c.occurrences(s)
		if cut = !complete && counted > 0; cut {
			break
		}
		c.add(s, due, groups[text])
		all = all && complete
		counted += jobsOf(groups[text])
	}
	visited = 1
	if cut && total > intervals {
		visited = max(float64(counted)/float64(total-intervals), 1e-9)
	}
	return visited, (visited*float64(total-intervals) + float64(intervals)) / float64(total), all && !cut
}

// restLast puts intervals first, by their text, because compiling has its price.
func restLast(text string) int {
	if strings.Contains(text, "every") {
		return 0
	}
	return 1
}

func jobsOf(groups []LoadJobs) (n int64) {
	for _, g := range groups {
		n += g.Jobs
	}
	return n
}

// addInterval counts the runs of the jobs of an interval, step by step.
func (c *loadCounter) addInterval(s *schedule.Schedule, groups []LoadJobs) {
	steps := make([]loadStep, len(c.counted))
	for _, g := range groups {
		c.budget -= 1 + len(steps)/intervalCost
		from, to := c.begin(), c.To
		if g.From != nil {
			from = later(from, *g.From)
		}
		if g.End != nil && g.End.Before(to) {
			to = *g.End
		}
		for i := max(int(from.Sub(c.From)/c.Step), 0); i < len(steps); i++ {
			begin := c.From.Add(time.Duration(i) * c.Step)
			end := begin.Add(c.Step)
			if to.Before(end) {
				end = to
			}
			if n, _ := s.Count(later(begin, from), end); n > 0 {
				steps[i].jobs, steps[i].runs = steps[i].jobs+g.Jobs, steps[i].runs+n*g.Jobs
			}
		}
	}
	list := loadList{schedule: s, interval: true}
	for i, step := range steps {
		if step.runs > 0 {
			c.counted[i] += float64(step.runs)
			list.steps = append(list.steps, loadStep{i, step.jobs, step.runs})
		}
	}
	c.lists = append(c.lists, list)
}

// begin is where the range begins that is still to come.
func (c *loadCounter) begin() time.Time { return later(c.From, c.Now) }

// occurrences lists the due times of a schedule in the range, as many as the budget allows.
func (c *loadCounter) occurrences(s *schedule.Schedule) (due []time.Time, complete bool) {
	for o := range s.All(c.begin().Add(-time.Nanosecond), c.To.Add(-time.Nanosecond)) {
		if c.budget--; c.budget < 0 {
			return due, false
		}
		if o.Skip == "" {
			due = append(due, o.Due)
		}
	}
	return due, true
}

// add counts the runs of the jobs of one schedule. Each group of jobs has a range of its occurrences.
func (c *loadCounter) add(s *schedule.Schedule, due []time.Time, groups []LoadJobs) {
	if len(due) == 0 {
		return
	}
	change := make([]int64, len(due)+1) // of the number of jobs, at each occurrence
	first := func(t *time.Time) int {
		if t == nil {
			return 0
		}
		i, _ := slices.BinarySearchFunc(due, *t, time.Time.Compare)
		return i
	}
	for _, g := range groups {
		begin, end := first(g.From), len(due)
		if g.End != nil {
			end = first(g.End)
		}
		if begin < end {
			change[begin] += g.Jobs
			change[end] -= g.Jobs
		}
	}
	list := loadList{schedule: s}
	jobs := int64(0)
	for i, t := range due {
		if jobs += change[i]; jobs == 0 {
			continue
		}
		step := int(t.Sub(c.From) / c.Step)
		c.sums[step] += float64(jobs)
		if n := len(list.steps); n == 0 || list.steps[n-1].step != step {
			list.steps = append(list.steps, loadStep{step: step})
		}
		last := &list.steps[len(list.steps)-1]
		last.jobs, last.runs = max(last.jobs, jobs), last.runs+jobs
	}
	c.lists = append(c.lists, list)
}

// hot returns the busiest steps and the schedules behind them.
func (c *loadCounter) hot(counts []int64, fraction float64) (out []HotStep) {
	busiest := make([]int, 0, len(counts))
	for i, n := range counts {
		if n > 0 {
			busiest = append(busiest, i)
		}
	}
	slices.SortStableFunc(busiest, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	for _, step := range busiest[:min(hotSteps, len(busiest))] {
		hot := HotStep{At: c.From.Add(time.Duration(step) * c.Step), Count: counts[step]}
		for _, l := range c.lists {
			i, found := slices.BinarySearchFunc(l.steps, step, func(s loadStep, n int) int { return cmp.Compare(s.step, n) })
			if found {
				scale := fraction
				if l.interval {
					scale = c.Fraction
				}
				hot.Schedules = append(hot.Schedules, LoadSchedule{
					Schedule: l.schedule, Jobs: scaled(float64(l.steps[i].jobs), scale),
					Runs: scaled(float64(l.steps[i].runs), scale),
				})
			}
		}
		slices.SortStableFunc(hot.Schedules, func(a, b LoadSchedule) int { return cmp.Compare(b.Runs, a.Runs) })
		hot.Schedules = hot.Schedules[:min(hotSchedules, len(hot.Schedules))]
		out = append(out, hot)
	}
	return out
}
