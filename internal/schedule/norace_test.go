//go:build !race

package schedule_test

const slowdown = 1
