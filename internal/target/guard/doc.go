// Package guard decides which addresses targets may connect to: addresses on the public internet, and
// those that the operator allows.
//
// Whoever may save a job chooses where Belfry connects to, and Belfry runs inside a network that its
// users may not be able to reach: databases without a password, cloud metadata services that hand out
// credentials, the node's own loopback interface. Every connection of a target whose server a user
// chooses therefore goes through a [Guard].
//
// The guard checks the address itself, after the last name was resolved and just before the socket
// connects. It does not check what the user wrote: a name may resolve to one address now and to another
// a moment later, and 127.0.0.1 has thousands of spellings, some of which only the connecting code
// understands.
//
// # What is refused
//
//   - all special-use registries of IPv4 and IPv6: loopback, private, link-local, documentation,
//     multicast and others
//   - all of IPv6 that is not global unicast, which includes NAT64 and mapped addresses
//   - 6to4 and Teredo, because they embed an IPv4 address
//   - the address of Azure's metadata service, which is in no registry
//
// A refused connection returns [ErrRefused], which is a permanent failure.
//
// # What the operator can allow
//
// The setting targets.allow lists networks ("10.0.0.0/8"), addresses with a port ("10.1.2.3:8080") and
// names with a port ("hooks.internal:443"). A name is trusted whatever it resolves to. A network does not
// include the addresses of cloud metadata services: each of them needs an entry of its own. An entry with a
// namespace ("billing=10.1.0.0/16") is for targets of that namespace only: see [Guard.For].
//
// # What the operator can deny
//
// The setting targets.deny lists networks, addresses with a port and names with a port that are refused
// whatever is allowed. A name stands for the addresses that it had when the node started. The database and
// the addresses that the node listens on are denied by default (Own), unless targets.allow names them with
// their port.
//
// With NoPublic, as in belfry dev, public addresses need an entry too. The entry "public" allows all of them.
package guard
