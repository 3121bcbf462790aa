//go:build !race

package hostile_test

// slowdown is what the race detector may cost, in CPU time and in memory.
const slowdown = 1
