// Package remote connects client commands to a Belfry server through sdk/go, prints its responses, and
// explains its errors in terms of the command line.
package remote
