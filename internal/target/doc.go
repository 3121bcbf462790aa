// Package target lists the kinds of targets a node delivers runs to. Each kind is a package below this
// one. Its main method is Deliver, which makes one attempt and returns the outcome. [New] is the list of
// all kinds. There is no registry that packages add themselves to, so one function shows what a node can
// do.
//
//	http                 sends a request
//	kafka, nats, amqp    publish a message; broker has what they share
//	command              runs a program in a sandbox or a container
//	worker               runs that users' own processes pull; nodes do not deliver them
//	noop                 does nothing
//
// Shared by several kinds:
//
//	guard       decides which addresses may be connected to
//	gate        limits deliveries per host, and stops them while a host is down
//	secret      reads stored secrets, and redacts them from messages
//	message     makes text from receivers printable and short
//	targettest  the conformance suite that every kind must pass
//
// A target makes one decision: may this attempt be retried? When, how often and whether at all is up to
// finish.Decide, which works from the outcome.
package target
