// Package runner is the process that runs users' commands, apart from the node
// that asks for them: `belfry runner`, a child of the node with an empty
// environment. It has no URL of a database and no key, so that whoever breaks out
// of a command's sandbox finds none.
//
//	node ── orders (stdin) ──► runner ── bwrap ── pid 1 ── the command
//	  ▲                          │
//	  └── reports (stdout) ◄─────┘
//
// Orders and reports are JSON, each with its length before it ([Write], [Read]).
// The first order carries the [Settings], and is answered when a trial of the
// sandbox has shown whether it works here. Then each [Order] starts or stops a
// command, and each [Report] carries what it wrote or what it came to. When the
// node goes away its end of the pipes is closed: all commands are killed and the
// runner ends. When the runner is killed, its commands die with it, and the next
// runner kills what was just being made then: see sweep_linux.go.
//
// # The sandbox
//
// bubblewrap gives a command namespaces of its own: processes, network, mounts,
// IPC, host name and users, with no capability and no way to gain one. What it
// sees of the machine are the paths that the node's settings name, read-only, a
// /tmp and a /dev/shm of limited size, and its own processes. A seccomp filter
// refuses what no job needs and escapes are made of, see seccomp_linux.go.
//
// Killing is killing pid 1 of the command's pid namespace: the kernel then kills
// all that is in it, however often it forked and whatever it called itself.
// A result is reported when that is done, so nothing of a command outlives it.
//
// # Limits
//
// Each process has limits of the kernel (rlimits): memory it allocates, open
// files, the size of a file, CPU time, and how many processes there are in its
// user namespace. What all of them have together (memory, files in /tmp) is looked
// at ten times a second, and who has more is killed. Between two looks a command
// may take more than it may have, and memory that the kernel keeps for it, such as
// the buffers of pipes, is not counted: hard limits on memory as a whole are those
// of a container.
package runner
