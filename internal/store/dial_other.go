//go:build !linux

package store

import "syscall"

// limitSilence does nothing where the kernel has no such limit; keep-alive
// probes notice a silent peer while nothing is sent.
func limitSilence(string, string, syscall.RawConn) error { return nil }
