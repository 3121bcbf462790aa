package job

import (
	"fmt"

	"github.com/google/uuid"
)

// Process identifies a process of Belfry that works on a database. Its sessions and its database connections carry it,
// so that whoever takes over from a session can end the transactions that the process left. The zero value identifies
// none.
type Process [6]byte

// NewProcess returns an identity for this process.
func NewProcess() (p Process) {
	id := uuid.New()
	copy(p[:], id[:])
	return p
}

// NewSession returns the id of a new session of the process.
func (p Process) NewSession() uuid.UUID {
	id := uuid.New()
	copy(id[:], p[:])
	return id
}

// ProcessOf returns the process that a session belongs to.
func ProcessOf(session uuid.UUID) (p Process) {
	copy(p[:], session[:])
	return p
}

// Application is the application_name of the database connections of the process.
func (p Process) Application() string {
	if p == (Process{}) {
		return "belfry"
	}
	return fmt.Sprintf("belfry %x", p[:])
}
