package finish_test

import (
	"testing"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/finish"
)

func BenchmarkDecide(b *testing.B) {
	in := finish.Input{
		Run: job.Run{Key: someKey, Attempt: 1}, Policy: job.Policy{}.WithDefaults(),
		Outcome: job.Outcome{Kind: job.Failed, Retryable: true}, Now: noon,
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = finish.Decide(in)
	}
}
