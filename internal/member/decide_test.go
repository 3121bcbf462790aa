package member

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

var (
	me, other, drains, dead = uuid.UUID{0: 1}, uuid.UUID{0: 2}, uuid.UUID{0: 3}, uuid.UUID{0: 4}
	instant                 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// surveyOf is a survey in which owner owns all partitions.
func surveyOf(owner uuid.UUID, sessions ...job.Session) job.Survey {
	s := job.Survey{Now: instant, Sessions: sessions, Ownerships: make([]job.Ownership, partitions)}
	for i := range s.Ownerships {
		s.Ownerships[i] = job.Ownership{Partition: int16(i), Owner: owner, Epoch: 9}
	}
	return s
}

func live(id uuid.UUID) job.Session {
	return job.Session{ID: id, ExpiresAt: instant.Add(4 * time.Second), Owns: true}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	draining := live(drains)
	draining.Owns = false
	draining.ExpiresAt = instant.Add(time.Second)
	mine := count(assign([]uuid.UUID{me, other}, partitions))[me]
	for name, c := range map[string]struct {
		survey              job.Survey
		draining            bool
		keep, release, take int
		awaited             bool
		expiry              time.Duration
	}{
		"alone, nobody owns":     {survey: surveyOf(uuid.Nil, live(me)), take: partitions},
		"alone, I own":           {survey: surveyOf(me, live(me)), keep: partitions},
		"alone, a dead one owns": {survey: surveyOf(dead, live(me)), take: partitions},
		"I own, another joined": {
			survey: surveyOf(me, live(me), live(other)), keep: mine, release: partitions - mine,
		},
		"I joined, another owns": {
			survey: surveyOf(other, live(me), live(other)), awaited: true, expiry: 4 * time.Second,
		},
		"two, a dead one owns": {survey: surveyOf(dead, live(me), live(other)), take: mine},
		"another drains and owns": {
			survey: surveyOf(drains, live(me), draining), awaited: true, expiry: time.Second,
		},
		"another drains, nobody owns": {survey: surveyOf(uuid.Nil, live(me), draining), take: partitions},
		"I drain with another": {
			survey: surveyOf(me, live(me), live(other)), draining: true, release: partitions,
		},
		"I drain alone":        {survey: surveyOf(me, live(me)), draining: true, release: partitions},
		"I drain, nobody owns": {survey: surveyOf(uuid.Nil, live(me)), draining: true},
	} {
		d := decide(c.survey, me, c.draining)
		taken := 0
		for _, list := range d.take {
			taken += len(list)
		}
		require.True(t, d.alive, name)
		require.Equal(t, []int{c.keep, c.release, c.take}, []int{len(d.keep), len(d.release), taken}, name)
		require.Equal(t, c.awaited, d.awaited, name)
		require.Equal(t, c.expiry, d.expiry, name)
	}
}

// A claim that hangs in one dead owner must not delay taking from others.
func TestDecideTakesByOwner(t *testing.T) {
	t.Parallel()
	s := surveyOf(dead, live(me))
	for i := range 100 {
		s.Ownerships[i].Owner = uuid.Nil
	}
	d := decide(s, me, false)
	require.Len(t, d.take, 2)
	require.Len(t, d.take[0], 100)
	require.Len(t, d.take[1], 156)
}

func TestDecideOfADeadSession(t *testing.T) {
	t.Parallel()
	require.Equal(t, decision{}, decide(surveyOf(me, live(other)), me, false))
}
