package app

import (
	"context"
	"time"
)

// The pause between rounds that found no work.
const (
	operationPause = time.Second
	operationSoon  = 100 * time.Millisecond
	operationPolls = 20 // rounds with the short pause
)

// operator works on bulk operations, together with the other nodes.
type operator struct {
	work func(context.Context) (worked bool, err error)
	idle int // rounds without work since the last one that had some
}

// once works on one operation. It polls quickly for a while after it had work, because the work of an
// operation is paced, and slowly otherwise.
func (o *operator) once(ctx context.Context) (time.Duration, error) {
	worked, err := o.work(ctx)
	switch {
	case worked:
		o.idle = 0
		return 0, err
	case err != nil:
		o.idle = operationPolls
	case o.idle < operationPolls:
		o.idle++
		return operationSoon, nil
	}
	return operationPause, err
}
