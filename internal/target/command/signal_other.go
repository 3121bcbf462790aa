//go:build !linux

package command

func signalName(int) string { return "not known here" }
