package job

import "errors"

// IdempotentRequest makes an order one that is carried out once, though it may be sent more
// often: with the same key and the same request the answer is the first one's.
type IdempotentRequest struct {
	Key     string
	Part    int16    // of a request that is several orders
	Request [32]byte // hash of what was asked for
	// Encode makes the answer of what the order came to. It is stored together
	// with that, or neither is.
	Encode func(result any) ([]byte, error)
	// Answer is set if the order had been carried out before.
	Answer []byte
}

// The errors of an order with an IdempotentRequest.
var (
	// ErrAlreadyDone says that it was carried out before: see [IdempotentRequest.Answer].
	ErrAlreadyDone = errors.New("done before")
	// ErrKeyUsed says that the key was used for another request.
	ErrKeyUsed = errors.New("the idempotency key was used for another request")
)
