// Package pull is how workers, users' own processes, get their runs and report
// on them.
//
//	long polls ──► queue: gather ──► ClaimDue ──► answers
//	                 ▲ hot             │ left over
//	                 │                 ▼
//	               look              AdmitDue, one by one ──► answers, or parked
//	(all lanes that somebody waits for, one statement)
//
//	reports ──► gathered for a few ms ──► CompletePulled ──► answers
//
//	what no worker was told of ──► owed ──► Claimed, CompletePulled
//
// A lane is the runs of one queue, handler and priority. Its mark is the time up
// to which this node has taken all that is due: claims and looks begin there. A
// mark that is too far makes a run late and not lost, since looks go back a
// little each second and to the beginning each half minute.
//
// Nothing here is needed for safety. A run is leased to a worker's session in the
// database, under the lock of its queue and never before its time; what a worker
// reports is fenced by session and attempt. Two nodes that hand out runs of one
// queue need not know of each other.
//
// Nothing runs while nobody waits: goroutines belong to queues with long polls and
// to reports under way, and end with them.
package pull
