package shared_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/server/shared"
)

func TestSharedReads(t *testing.T) {
	t.Parallel()
	var elapsed atomic.Int64
	s := &shared.Reads[string, int]{
		Age: time.Second, Max: 2, Elapsed: func() time.Duration { return time.Duration(elapsed.Load()) },
	}
	reads, failure := 0, error(nil)
	get := func(key string) (int, error) {
		return s.Get(t.Context(), key, func(context.Context) (int, error) {
			reads++
			return reads, failure
		})
	}
	expect := func(key string, want int) {
		t.Helper()
		got, err := get(key)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	expect("a", 1)
	elapsed.Add(int64(999 * time.Millisecond))
	expect("a", 1)
	expect("b", 2)
	elapsed.Add(int64(time.Millisecond))
	expect("a", 3)
	expect("b", 2)

	// A failure is shared, but not for long.
	elapsed.Add(int64(time.Hour))
	failure = errors.New("no database")
	for range 3 {
		_, err := get("a")
		require.ErrorIs(t, err, failure)
	}
	require.Equal(t, 4, reads)
	failure = nil
	elapsed.Add(int64(time.Second))
	expect("a", 5)

	// It keeps two.
	expect("c", 6)
	expect("d", 7)
	expect("a", 8)
}

// TestNobodyWaitsLongerThanTheirClient: a slow read does not hold the requests of clients that are gone.
func TestNobodyWaitsLongerThanTheirClient(t *testing.T) {
	t.Parallel()
	s := &shared.Reads[string, int]{Age: time.Second, Max: 10}
	reading, released := make(chan struct{}), make(chan struct{})
	var reads atomic.Int64
	read := func(context.Context) (int, error) {
		reads.Add(1)
		close(reading)
		<-released
		return 7, nil
	}
	var all sync.WaitGroup
	get := func() {
		if n, err := s.Get(t.Context(), "a", read); n != 7 || err != nil {
			t.Errorf("%d %v", n, err)
		}
	}
	all.Go(get)
	<-reading
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Get(gone, "a", read)
	require.ErrorIs(t, err, context.Canceled)
	for range 20 {
		all.Go(get)
	}
	close(released)
	all.Wait()
	require.EqualValues(t, 1, reads.Load())
}

// TestAPanicEndsARead: those who wait get an error.
func TestAPanicEndsARead(t *testing.T) {
	t.Parallel()
	s := &shared.Reads[string, int]{Age: time.Hour, Max: 10}
	require.Panics(t, func() {
		_, _ = s.Get(t.Context(), "a", func(context.Context) (int, error) {
			panic("a bug") //nolint:forbidigo // what the test is about
		})
	})
	_, err := s.Get(t.Context(), "a", nil)
	require.Error(t, err)
}

// TestStaleResultsMeanwhile: no request waits for a read while the last result may still be used, and a failure does not
// take that away.
func TestStaleResultsMeanwhile(t *testing.T) {
	t.Parallel()
	var elapsed atomic.Int64
	s := &shared.Reads[string, int]{
		Age: time.Second, Stale: 5 * time.Second, Max: 2,
		Elapsed: func() time.Duration { return time.Duration(elapsed.Load()) },
	}
	answers := make(chan int)
	read := func(context.Context) (int, error) {
		n := <-answers
		if n < 0 {
			return 0, errors.New("no database")
		}
		return n, nil
	}
	get := func() (int, error) { return s.Get(t.Context(), "a", read) }
	await := func(want int) {
		t.Helper()
		require.Eventually(t, func() bool {
			got, err := get()
			return err == nil && got == want
		}, time.Minute, time.Millisecond)
	}
	go func() { answers <- 1 }()
	await(1)
	elapsed.Add(int64(time.Second))
	for range 3 {
		await(1) // while the second is read
	}
	answers <- 2
	await(2)
	elapsed.Add(int64(time.Second))
	await(2)
	answers <- -1
	await(2)
	elapsed.Add(int64(5 * time.Second))
	go func() { answers <- 3 }()
	require.Eventually(t, func() bool {
		elapsed.Add(int64(time.Second)) // the failure may have ended only now
		got, err := get()
		return err == nil && got == 3
	}, time.Minute, time.Millisecond)
}
