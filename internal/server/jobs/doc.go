// Package jobs is the part of the API below /jobs: the operations on definitions of jobs, and the JSON
// of a job (wire.go).
package jobs
