// Package overview has the commands that show numbers about many runs: belfry status and belfry dlq summary.
package overview
