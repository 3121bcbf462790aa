package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Day is a day in UTC.
type Day struct{ year, month, day int }

// DayOf returns the day of a time.
func DayOf(t time.Time) Day {
	y, m, d := t.UTC().Date()
	return Day{y, int(m), d}
}

// ParseDay reads a day such as 2026-11-15.
func ParseDay(text string) (Day, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return Day{}, fmt.Errorf("%q is not a day such as 2026-11-15", text)
	}
	return DayOf(t), nil
}

// Start returns when the day begins.
func (d Day) Start() time.Time {
	return time.Date(d.year, time.Month(d.month), d.day, 0, 0, 0, 0, time.UTC)
}

// String returns the day as in 2026-11-15.
func (d Day) String() string { return d.Start().Format(time.DateOnly) }

// MarshalText is String.
func (d Day) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is ParseDay.
func (d *Day) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDay(string(text))
	return err
}

func (d Day) prefix(kind Kind) string { return fmt.Sprintf("v1/%s/day=%s/", kind, d) }

// Manifest is what a day consists of. It has no time of its own, so that a retry writes the same bytes.
type Manifest struct {
	Format     int     `json:"format"` // 1
	Day        Day     `json:"day"`
	Generation int     `json:"generation"`
	Totals     []Total `json:"totals"`
	Files      []File  `json:"files"`
}

// Total is the sum of the files of one kind and namespace.
type Total struct {
	Kind      Kind      `json:"kind"`
	Namespace uuid.UUID `json:"namespace"`
	Sum       Sum       `json:"sum"`
}

const (
	manifestPrefix = "v1/manifest/"
	maxManifest    = 64 << 20 // bytes: some 100,000 files
)

func manifestName(d Day, generation int) string {
	return fmt.Sprintf("%s%s.g%04d.json", manifestPrefix, d, generation)
}

func parseManifestName(name string) (d Day, generation int, err error) {
	if _, err = fmt.Sscanf(strings.TrimPrefix(name, manifestPrefix), "%04d-%02d-%02d.g%04d.json",
		&d.year, &d.month, &d.day, &generation); err != nil || manifestName(d, generation) != name {
		return d, 0, fmt.Errorf("%s is not the name of a manifest", name)
	}
	return d, generation, nil
}

// NewManifest describes a day that consists of these files.
func NewManifest(d Day, generation int, files []File) (Manifest, error) {
	m := Manifest{Format: 1, Day: d, Generation: generation, Files: slices.Clone(files), Totals: []Total{}}
	if m.Files == nil {
		m.Files = []File{} // a day without rows
	}
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	m.Totals = m.totals()
	return m, m.check()
}

// Name is the name of the manifest's object.
func (m *Manifest) Name() string { return manifestName(m.Day, m.Generation) }

// Encode returns the content of the manifest's object.
func (m *Manifest) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	if len(text) >= maxManifest {
		return nil, fmt.Errorf("the manifest of %s has %d bytes, the maximum is %d", m.Day, len(text), maxManifest)
	}
	return append(text, '\n'), nil
}

// Sum returns the sum of all files of a kind.
func (m *Manifest) Sum(kind Kind) (s Sum) {
	for _, t := range m.Totals {
		if t.Kind == kind {
			s.Merge(t.Sum)
		}
	}
	return s
}

// DecodeManifest reads a manifest and checks that it is consistent in itself and belongs to this name.
func DecodeManifest(name string, text []byte) (m Manifest, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("%s: %w", name, err)
	}
	if m.Name() != name {
		return m, fmt.Errorf("%s is the manifest of %s", name, m.Name())
	}
	if err := m.check(); err != nil {
		return m, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func (m *Manifest) totals() []Total {
	out := []Total{}
	for i := range m.Files {
		f := &m.Files[i]
		at := slices.IndexFunc(out, func(t Total) bool { return t.Kind == f.Kind && t.Namespace == f.Namespace })
		if at < 0 {
			at, out = len(out), append(out, Total{Kind: f.Kind, Namespace: f.Namespace})
		}
		out[at].Sum.Merge(f.Sum)
	}
	return out
}

// check returns what is wrong: files in a wrong order or place, or totals that are not those of the files.
func (m *Manifest) check() error {
	if m.Format != 1 || m.Generation < 1 || m.Generation > 9999 {
		return fmt.Errorf("format %d, generation %d: this version reads format 1", m.Format, m.Generation)
	}
	p := Place{Day: m.Day, Generation: m.Generation}
	for i := range m.Files {
		f := &m.Files[i]
		p.Number++
		if i == 0 || m.Files[i-1].Kind != f.Kind || m.Files[i-1].Namespace != f.Namespace {
			p.Namespace, p.Number = f.Namespace, 1
		}
		switch {
		case f.Kind != Runs && f.Kind != Skips, f.Name != p.name(f.Kind, f.First), CheckName(f.Name) != nil:
			return fmt.Errorf("file %q is not in its place: expected %q", f.Name, p.name(f.Kind, f.First))
		case f.Bytes <= 0 || f.Bytes > 2*MaxBytes || f.Sum.Rows <= 0 || f.Sum.Rows > MaxRows || len(f.SHA256) != 64:
			return fmt.Errorf("file %q has %d bytes and %d rows", f.Name, f.Bytes, f.Sum.Rows)
		}
	}
	if !slices.Equal(m.Totals, m.totals()) {
		return errors.New("the totals are not the sums of the files")
	}
	return nil
}
