// Package targettest is what every target must do, as tests. A target's own test
// starts a real server, makes it behave as it is told through [Server], and calls
// [Run]; how outcomes are to be read is written here once.
//
// A target that has no server (noop) gives none: what needs one is then skipped.
package targettest
