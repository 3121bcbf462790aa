package kafka

// NewThrough is New with another way to open connections.
var NewThrough = newTarget
