// Package noop is the target that does nothing and succeeds immediately. Use it to try out schedules,
// and to measure Belfry without a receiver (belfry bench).
package noop
