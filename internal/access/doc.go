// Package access is the vocabulary of who may do what. It is pure: no I/O and no clock.
//
//	key.go      namespaces, API keys and their roles; the format of a key's secret
//	login.go    login sessions of the web UI
//	person.go   people of an identity provider, and what their groups may do
//	report.go   the token with which a target reports the outcome of an attempt
//	secret.go   values that users store for their targets
//	audit.go    the audit log and its hash chain
package access
