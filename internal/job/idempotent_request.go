package job

import (
	"errors"
	"time"
)

// IdempotentRequest makes a request take effect once, however often it is sent. A repeated request with the same key
// and the same content gets the response to the first one.
type IdempotentRequest struct {
	Key     string
	Part    int16    // numbers the transactions of a request that needs several
	Request [32]byte // hash of the request's content
	// Encode turns the result into the response to store. The store commits the response together with the effect.
	Encode func(result any) ([]byte, error)
	// Response is the stored response. The store sets it when it returns ErrAlreadyDone.
	Response []byte
	// Since is when the request was first received. A request of several transactions must not overwrite later changes.
	Since time.Time
}

// The errors of a request with an IdempotentRequest.
var (
	// ErrAlreadyDone says that the request took effect before: see [IdempotentRequest.Response].
	ErrAlreadyDone = errors.New("the request was carried out before")
	// ErrKeyUsed says that the key was used for another request.
	ErrKeyUsed = errors.New("the idempotency key was used for another request")
)

// KeepResponses is how long the response to a request with an idempotency key is stored.
const KeepResponses = 24 * time.Hour
