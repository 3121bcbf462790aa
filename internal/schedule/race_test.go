//go:build race

package schedule_test

// slowdown is what the race detector may cost.
const slowdown = 20
