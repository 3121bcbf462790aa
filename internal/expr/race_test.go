//go:build race

package expr_test

const slower = 10
