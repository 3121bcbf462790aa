// Package gate keeps one slow or failing host, and one namespace with many of them, from taking the node's slots away
// from all others.
//
// The gate counts deliveries per [Destination], which is a host (of a broker: its list of servers) as one namespace
// uses it, and per namespace. What one namespace does to a host does not affect another. Each delivery calls
// [Gate.Enter]. It gets a [Pass],
// or an outcome that defers the run: a deferred run is pending again, frees its slot, and the attempt
// does not count.
//
// # Backpressure
//
// A node has a fixed number of slots. A host that takes 30 s for each response would soon fill them
// all. A destination may therefore have at most twice as many deliveries in flight as there are free
// slots:
//
//	in flight ≤ 2 × (slots − slots in use)
//
// One slow host gets two thirds of the slots and leaves a third for all others. Many slow hosts would leave
// slots ÷ (2n + 1), so all hosts of a namespace together have a limit as well:
//
//	in flight of a namespace ≤ 4 × (slots − slots in use)
//
// A namespace alone gets four fifths of the slots, however many hosts it has, and n namespaces leave
// slots ÷ (4n + 1) free. A destination may have twice what is left of its namespace's limit, if that is less than
// the free slots, so that the hosts of a namespace leave some to each other too. A namespace or a destination with no
// delivery in flight may always start one. This needs no configuration, and a node with a single busy host wastes
// little. The operator can set a lower limit per host to protect the receivers.
//
// A delivery over the limit waits in its slot if capacity is expected within maxWait, as it is for
// hosts that respond fast. Otherwise it is deferred. Deferred deliveries return at the pace at which
// the host finishes its deliveries, at most maxDelay later, so many of them cost few claims.
//
// # Breaker
//
// If nearly all recent deliveries to a destination failed in a way that says the host itself is down
// or overloaded, its breaker opens and deliveries are deferred. After the cooldown one delivery probes
// the host. If the probe fails, the cooldown doubles. Any response from a working host, including an
// application error, closes the breaker.
//
// # Memory
//
// A gate remembers a bounded number of destinations: all that are in use, and the most recently used
// of the others. It forgets a destination that was not used for idleTTL, even one whose breaker is
// open, because the cooldown has long passed by then. Half of the memory is reserved for destinations
// with an open breaker. A flood of new hosts therefore closes no breaker, and many open breakers do
// not prevent the gate from learning about other hosts.
package gate
