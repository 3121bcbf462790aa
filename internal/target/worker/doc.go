// Package worker is the target whose runs users' own processes pull. Nodes do
// not deliver them: see internal/pull.
package worker
