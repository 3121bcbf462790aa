//go:build linux

package command_test

import (
	"testing"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/command"
)

// BenchmarkDeliver measures a command that does nothing.
func BenchmarkDeliver(b *testing.B) {
	target := command.New(options(b))
	if err := target.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(target.Close)
	for b.Loop() {
		if got := target.Deliver(b.Context(),
			attempt(`{"program": "/bin/sh", "args": ["-c", "exit 0"]}`, time.Minute)); got.Kind != job.Succeeded {
			b.Fatal(got)
		}
	}
}
