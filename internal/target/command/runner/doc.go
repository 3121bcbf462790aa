// Package runner is the process that runs users' commands: `belfry runner`, a child of the node with an
// empty environment. It has no database URL and no key, and runs in a sandbox that has no file of the node
// (see confine.go), so a command that breaks out of its own sandbox finds none.
//
//	node ── requests (stdin) ──► bwrap ── runner ── bwrap ── pid 1 ── the command
//	  ▲                                     │
//	  └── reports (stdout) ◄────────────────┘
//
// Requests and reports are JSON with a length prefix ([Write], [Read]). The first request carries the
// [Settings]. The runner tries the sandbox and reports whether it works here. After that, each [Request]
// starts or stops a command, and each [Report] carries output or a result.
//
// When the node ends, its end of the pipes is closed: the runner kills all commands and ends. When the
// runner is killed, its commands die with it, because they are in its pid namespace.
//
// # The sandbox
//
// bubblewrap gives a command its own namespaces for processes, network, mounts, IPC, host name and users,
// with no capability and no way to gain one. A command sees the paths that the node's settings list,
// read-only, a /tmp and a /dev/shm of limited size, and its own processes. A seccomp filter denies system
// calls that no job needs and that exploits use: see seccomp_linux.go.
//
// To kill a command, the runner kills pid 1 of its pid namespace. The kernel then kills everything in it,
// however often the command forked. The runner reports a result only after that, so no process of a command
// outlives its result.
//
// # Limits
//
// The kernel limits each process (rlimits): allocated memory, open files, file size, CPU time, and the
// number of processes in its user namespace. The runner checks what all processes of a command use together
// (memory, files in /tmp) ten times a second, and kills the command if it is too much. A command can exceed
// the limits between two checks, and kernel memory such as pipe buffers does not count. Use a container if
// you need a hard limit on total memory.
package runner
