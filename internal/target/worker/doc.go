// Package worker is the target for runs that users' own processes pull. Nodes do not deliver these runs
// (see internal/pull), so the package only checks configs.
package worker
