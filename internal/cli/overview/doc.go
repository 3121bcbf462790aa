// Package overview has the commands that show numbers about many runs: belfry dlq summary.
package overview
