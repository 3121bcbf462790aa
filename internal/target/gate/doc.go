// Package gate keeps one place that is slow or down from taking the others along.
//
// A place is a namespace and a host: what one namespace does to a host is no
// concern of another. A delivery enters the gate, or is told when to come again: it
// is then deferred, which costs the run no attempt and the node no slot.
//
// # Slots
//
// A node has a finite number of slots, and a host that takes 30 s for each answer
// would fill them all. So a place may have as many deliveries under way as twice
// the slots that are free:
//
//	under way ≤ 2 × (slots − all under way)
//
// One slow place gets two thirds of the slots, and a third is left for all others;
// two get two fifths each; n of them leave slots ÷ (2n + 1). Nothing has to be
// configured, and a node with one busy place wastes little. The operator may set a
// lower limit for each place, for the sake of the receivers.
//
// Who finds no room waits in its slot, if room is expected within a moment, as it
// is with places that answer fast; else it is deferred. When it comes back follows
// from how fast the place works off what it has: the deferred ones are spread at
// that pace, at most maxDelay away, so that many of them cost few claims.
//
// # Breaker
//
// A place of which nearly all of the last deliveries failed, in a way that says the
// host itself is unwell, is given a rest: the breaker opens. After it one delivery
// tries; if it fails too, the rest doubles. Answers of a host that works, also
// errors of what it runs, close the breaker.
//
// # Memory
//
// A gate remembers a bounded number of places: those in use, and of the others the
// last ones that were. One that nobody has asked about for a quarter of an hour is
// forgotten, also if it was given a rest, which is long over by then. Half of the
// room is for those that rest: a flood of others does not end their rest, nor do many of them keep
// others from being known.
package gate
