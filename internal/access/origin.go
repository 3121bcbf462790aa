package access

import "context"

// Origin is where a request came from.
type Origin struct {
	Address string // of the client, with its port. Behind a proxy, that of the proxy
	Request string // the id of the request, as in the log
}

type originKey struct{}

// WithOrigin returns a context of work for a request. Audit entries that are written with it name its origin.
func WithOrigin(ctx context.Context, o Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// OriginOf returns the origin of the request that a context belongs to; zero: it belongs to none.
func OriginOf(ctx context.Context) Origin {
	o, _ := ctx.Value(originKey{}).(Origin)
	return o
}

// Refusal is the requests of a key, or a person, that wanted to change something and were refused in about a minute.
type Refusal struct {
	Principal  Principal // zero: of several
	Origin     Origin    // of the first
	Count      int
	Operations []string // the first ones, each once
}
