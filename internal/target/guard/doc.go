// Package guard is how targets connect: to addresses on the open internet, and to
// those that the operator allows.
//
// Who may save a job says where Belfry connects to, and Belfry stands inside a
// network that its users may not reach: databases without a password, metadata
// services of clouds that hand out credentials, the node's own loopback. So every
// connection of every target goes through a [Guard], and what the user wrote is
// not what is checked: names resolve to one address now and to another a moment
// later, and there are thousands of spellings of 127.0.0.1, some of which only
// the code that connects understands. The guard is asked with the address itself,
// after the last name was resolved, just before the socket connects.
//
// For brokers this holds too: the addresses that a broker advertises are its
// owner's words, and go through the same guard.
//
// # What is refused
//
// All of the special-use registries of IPv4 and IPv6 (loopback, private, link
// local, documentation, multicast, …), all of IPv6 that is not global unicast
// (which takes NAT64 and mapped addresses with it), 6to4 and Teredo, because they
// carry an IPv4 address within, and the address at which Azure answers its
// machines, which is in no registry.
//
// # What is allowed all the same
//
// The operator's list, targets.allow: networks ("10.0.0.0/8"), one address with
// its port ("10.1.2.3:8080") or one name with its port ("hooks.internal:443"). A
// name is trusted whatever it resolves to. A network does not take in the places
// where clouds hand out credentials: they need an entry of their own.
package guard
