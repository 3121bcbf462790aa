// Package crontab reads crontabs, as crontab(5) describes them, and converts their lines to jobs. Pure.
package crontab

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// Crontab is the content of a crontab.
type Crontab struct {
	Entries []Entry
	Refused []Refusal
	Notes   []string // what was left out, and why
}

// Entry is a line with a schedule and a command.
type Entry struct {
	Line    int
	Spec    schedule.Spec
	User    string // only in a system crontab
	Command string
	Stdin   string // the text after the first %
	Env     map[string]string
	Comment string // the comment above the line
}

// Refusal is a line that cannot be imported.
type Refusal struct {
	Line         int
	Text, Reason string
}

var (
	variableLine   = regexp.MustCompile(`^\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z_][A-Za-z0-9_]*))\s*=\s*(.*?)\s*$`)
	entryLine      = regexp.MustCompile(`^\s*-?(@every\s+\S+|@\S+|(?:\S+\s+){4}\S+)\s+(.*?)\s*$`)
	userAndCommand = regexp.MustCompile(`^(\S+)\s+(.*)$`)
)

// Parse reads a crontab. system means the form of /etc/crontab, with a user before the command.
// zone applies to lines that have no CRON_TZ above them.
func Parse(r io.Reader, system bool, zone string) (*Crontab, error) {
	return ParseWithin(r, system, zone, Limits{})
}

// ParseWithin is Parse within limits.
func ParseWithin(r io.Reader, system bool, zone string, limits Limits) (*Crontab, error) {
	p := &parser{
		system: system, zone: zone, machineZone: zone, limits: limits, env: map[string]string{}, out: &Crontab{},
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		p.line(n, strings.TrimSuffix(lines.Text(), "\r"))
		if err := p.checkSize(n); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return p.out, p.checkForm()
}

type parser struct {
	system      bool
	machineZone string
	zone        string // of the current line
	jitter      string
	limits      Limits
	env         map[string]string
	envUsed     bool // by an entry: it is copied before it changes
	envBytes    int
	outBytes    int
	comment     string
	out         *Crontab
}

func (p *parser) line(n int, text string) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		p.comment = ""
		return
	}
	if comment, ok := strings.CutPrefix(trimmed, "#"); ok {
		comment = strings.TrimSpace(strings.TrimLeft(comment, "#"))
		// An entry that was commented out is not a name for the next one.
		if m := entryLine.FindStringSubmatch(comment); m != nil {
			if _, err := p.schedule(m[1]); err == nil {
				return
			}
		}
		if !template.MatchString(comment) {
			p.comment = cmp.Or(comment, p.comment)
		}
		return
	}
	if m := variableLine.FindStringSubmatch(text); m != nil {
		p.variable(n, cmp.Or(m[1], m[2], m[3]), unquote(m[4]))
		return
	}
	if err := p.entry(n, text); err != nil {
		p.out.Refused = append(p.out.Refused, Refusal{n, trimmed, err.Error()})
		p.outBytes += perLine + len(trimmed) + len(err.Error())
	}
	p.comment = ""
}

func (p *parser) variable(n int, name, value string) {
	switch name {
	case "CRON_TZ":
		p.zone = cmp.Or(value, p.machineZone)
	case "RANDOM_DELAY": // of cronie, in minutes
		p.jitter = ""
		if minutes, err := strconv.Atoi(value); err == nil && minutes > 0 {
			p.jitter = strconv.Itoa(minutes) + "m"
		}
	case "MAILTO", "MAILFROM":
		p.out.Notes = append(p.out.Notes, fmt.Sprintf(
			"line %d: %s is left out: Belfry sends no mail; failed runs are dead letters (belfry dlq list)", n, name))
		p.outBytes += perLine
	default:
		p.set(name, value)
	}
}

func (p *parser) entry(n int, text string) error {
	m := entryLine.FindStringSubmatch(text)
	if m == nil {
		return errors.New("it is not five fields and a command")
	}
	e := Entry{Line: n, Comment: p.comment}
	rest := m[2]
	if p.system {
		u := userAndCommand.FindStringSubmatch(rest)
		if u == nil {
			return errors.New("there is no command behind the user; is this a user's crontab, and not a system one?")
		}
		e.User, rest = u[1], u[2]
	}
	var err error
	if e.Spec, err = p.schedule(m[1]); err != nil {
		return err
	}
	e.Command, e.Stdin = splitPercent(rest)
	payload := p.envBytes + len(e.Command) + len(e.Stdin) + len(e.User)
	if err := p.limits.CheckPayload(payload); err != nil {
		return err
	}
	e.Env, p.envUsed = p.env, true
	p.out.Entries = append(p.out.Entries, e)
	p.outBytes += perLine + payload + len(e.Comment)
	return nil
}

// schedule parses the time fields of an entry, and rejects what the server would reject.
func (p *parser) schedule(fields string) (schedule.Spec, error) {
	if fields == "@reboot" {
		return schedule.Spec{}, errors.New("@reboot is not a time; start it with the system, such as by systemd")
	}
	spec := schedule.Spec{Cron: strings.Join(strings.Fields(fields), " "), Timezone: p.zone, Jitter: p.jitter}
	if interval, ok := strings.CutPrefix(spec.Cron, "@every "); ok {
		spec.Cron, spec.Every = "", interval
	}
	_, err := schedule.New(spec, "")
	return spec, err
}

// ErrForm says that a system crontab was read as a user's.
var ErrForm = errors.New("read it as a system crontab")

// checkForm rejects a system crontab that is read as a user's: every command would begin with the name
// of a user.
func (p *parser) checkForm() error {
	if p.system {
		return nil
	}
	for _, e := range p.out.Entries {
		if strings.HasPrefix(e.Command, "root ") {
			return fmt.Errorf("%w: line %d: the command begins with root; this looks like /etc/crontab, which has users",
				ErrForm, e.Line)
		}
	}
	return nil
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// splitPercent splits a command as cron does: the text after the first % is its standard input, each
// further % is a line break, and \% is a literal %.
func splitPercent(text string) (command, stdin string) {
	var parts []string
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == '%':
			b.WriteByte('%')
			i++
		case text[i] == '%':
			parts = append(parts, b.String())
			b.Reset()
		default:
			b.WriteByte(text[i])
		}
	}
	parts = append(parts, b.String())
	return parts[0], strings.Join(parts[1:], "\n")
}
