package archive

import (
	"context"
	"fmt"
	"slices"
)

// VerifiedDay is a day of the archive that was read back.
type VerifiedDay struct {
	Day      Day       `json:"day"`
	Runs     int64     `json:"runs"`
	Skips    int64     `json:"skips"`
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	Findings []Finding `json:"findings"`
}

// VerifyDays is Verify of all days from one to another, both included. It also compares their manifests with what the
// database noted when they were archived, and calls each with every day.
func (a *Archive) VerifyDays(
	ctx context.Context, from, to Day, states []DayState, each func(VerifiedDay) error,
) error {
	noted := map[Day]DayState{}
	for _, s := range states {
		if s.State == "archived" || s.State == "incomplete" {
			noted[s.Day] = s
		}
	}
	names, err := a.Days(ctx, from, to)
	if err != nil {
		return err
	}
	for _, name := range names {
		v, err := a.Verify(ctx, name)
		if err != nil {
			return err
		}
		m := &v.Manifest
		d := VerifiedDay{
			Day: m.Day, Runs: m.Sum(Runs).Rows, Skips: m.Sum(Skips).Rows, Files: len(m.Files), Bytes: v.Bytes,
			Findings: append([]Finding{}, v.Findings...),
		}
		if s, ok := noted[m.Day]; ok {
			d.compare(&s, m)
		}
		delete(noted, m.Day)
		if err := each(d); err != nil {
			return err
		}
	}
	return missingDays(noted, each)
}

// compare compares a manifest with what the database noted.
func (d *VerifiedDay) compare(s *DayState, m *Manifest) {
	runs, skips := m.Sum(Runs), m.Sum(Skips)
	if s.Manifest != m.Name() || s.Runs.Rows != runs.Rows || s.Runs.Keys != runs.Keys || s.Skips.Rows != skips.Rows ||
		s.Skips.Keys != skips.Keys {
		d.Findings = append(d.Findings, Finding{m.Name(), fmt.Sprintf(
			"the database noted %s with %d runs and %d skips, or other keys", s.Manifest, s.Runs.Rows, s.Skips.Rows)})
	}
}

// missingDays reports the days that the archive has lost.
func missingDays(noted map[Day]DayState, each func(VerifiedDay) error) error {
	var days []Day
	for d := range noted {
		days = append(days, d)
	}
	slices.SortFunc(days, func(a, b Day) int { return a.Start().Compare(b.Start()) })
	for _, d := range days {
		f := Finding{noted[d].Manifest, "the manifest is missing"}
		if err := each(VerifiedDay{Day: d, Findings: []Finding{f}}); err != nil {
			return err
		}
	}
	return nil
}
