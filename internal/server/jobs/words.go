package jobs

import (
	"cmp"
	"time"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// InWords describes a schedule for people.
type InWords struct {
	Words string `json:"words" doc:"The schedule, for people. UTC unless a zone is named." example:"every 15 minutes"`
	Zone  string `json:"zone" doc:"Time zone of the schedule." example:"Europe/Berlin"`
}

// inWords describes a schedule and returns its zone. A stored schedule that this node cannot read has no words: a user
// must be able to read and replace it.
func inWords(spec schedule.Spec, spread string) (InWords, *time.Location) {
	s, err := schedule.New(spec, spread)
	if err != nil {
		return InWords{Zone: cmp.Or(spec.Timezone, "UTC")}, time.UTC
	}
	return wordsOf(s), s.Zone()
}

func wordsOf(s *schedule.Schedule) InWords { return InWords{s.Words(), s.Zone().String()} }
