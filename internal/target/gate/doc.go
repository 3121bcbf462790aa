// Package gate keeps one slow or failing host, and one namespace with many of them, from taking the node's slots away
// from all others.
//
// The gate counts deliveries per [Destination], which is a host (of a broker: its list of servers) as one namespace
// uses it, and per namespace. What one namespace does to a host does not affect another. Each delivery calls
// [Gate.Enter]. It gets a [Pass], or an outcome that defers the run: a deferred run is pending again, frees its
// slot, and the attempt does not count.
//
// # Backpressure
//
// A node has a fixed number of slots. A host that takes 30 s for each response would soon fill them
// all. A namespace may therefore have at most four times as many deliveries in flight as there are free
// slots:
//
//	in flight of a namespace ≤ 4 × (slots − slots in use)
//
// A namespace alone gets four fifths of the slots, however many hosts it has. If deliveries end, n busy
// namespaces get 4 ÷ (4n + 1) each. If they do not end, each namespace takes four fifths of what the one
// before it left.
//
// A destination may have at most three times as many in flight as its namespace may still start, and at most
// twice as many as there are free slots. One slow host alone gets three fifths of the slots, and each further one
// three quarters of what the namespace may still start. A namespace with none in flight may always start one. This
// needs no configuration, and a node with a single busy host wastes little. The operator can set a lower limit per
// host to protect the receivers.
//
// Commands have slots of their own, and a gate of their own with the option Shared: a namespace with one in flight may
// start another if then it has at most four times as many as are left. There may be few such slots, so the rule counts
// what is left after the start: of two, one is left. Any delivery that ends may be capacity for another namespace, so it
// goes to the waiting namespace with the fewest in flight, and deferred deliveries return at the pace of all.
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
// application error, closes the breaker. A broker that refuses the login, or a server that Belfry may not connect to,
// changes nothing.
//
// # Memory
//
// A gate remembers a bounded number of destinations: all that are in use, and the most recently used
// of the others. It forgets a destination that was not used for idleTTL, even one whose breaker is
// open, because the cooldown has long passed by then. Half of the memory is reserved for destinations
// with an open breaker. A flood of new hosts therefore closes no breaker, and many open breakers do
// not prevent the gate from learning about other hosts.
package gate
