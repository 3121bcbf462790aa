// Package noop is the target that does nothing and succeeds at once. It measures
// Belfry without a receiver (belfry bench), and tries schedules out.
package noop
