// Package access is the vocabulary of who may do what: namespaces, API keys and
// their roles, the audit log and its hash chain, and the secrets that users
// store for their targets. It is pure: no I/O and no clock.
package access
