// Package targettest is the conformance suite that every target must pass. It defines once what an
// outcome means: when a delivery succeeded, when it may be retried, and what a message may contain.
//
// The test of a target starts a real server, implements [Server] to control how it behaves, and calls
// [Run]. A target without a server (noop) passes none, and the cases that need one are left out.
package targettest
