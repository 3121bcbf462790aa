//go:build linux

package command_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/command"
)

// hostile is a script that tries to escape, or to use more than it may.
type hostile struct {
	script  string
	timeout time.Duration // 0: a minute
	says    []string      // each of these appears in its output or in the message
	never   string        // this does not
	ends    string        // prefix of the message; empty: it succeeds
}

// What scripts print when they get through. No error message contains it.
const through = "GOT-THROUGH"

// try returns a script of attempts, each of which must fail.
func try(attempts ...string) string {
	var s strings.Builder
	for i, a := range attempts {
		fmt.Fprintf(&s, "if ( %s ) 2>&1; then echo %s %d; else echo held %d; fi\n", a, through, i, i)
	}
	return s.String()
}

func held(n int) (out []string) {
	for i := range n {
		out = append(out, "held "+strconv.Itoa(i)+"\n")
	}
	return out
}

// System calls that no command may make, with their arguments. A string must be a variable in perl, because
// the kernel may write to it.
var kernel = []struct {
	number int
	args   string
}{
	{unix.SYS_PTRACE, ", 0, 0, 0, 0"},
	{unix.SYS_PROCESS_VM_READV, ", 1, 0, 0, 0, 0, 0"},
	{unix.SYS_MEMFD_CREATE, ", $x, 0"},
	{unix.SYS_SHMGET, ", 0, 4096, 0777"},
	{unix.SYS_MSGGET, ", 0, 0777"},
	{unix.SYS_KEYCTL, ", 0, 0"},
	{unix.SYS_ADD_KEY, ", $x, $x, $x, 1, -3"},
	{unix.SYS_IO_URING_SETUP, ", 1, 0"},
	{unix.SYS_BPF, ", 0, 0, 0"},
	{unix.SYS_PERF_EVENT_OPEN, ", 0, 0, 0, 0, 0"},
	{unix.SYS_USERFAULTFD, ", 1"},
	{unix.SYS_UNSHARE, ", 0x20000"},
	{unix.SYS_SETNS, ", 0, 0"},
	{unix.SYS_MOUNT, ", $x, $x, $x, 0, 0"},
	{unix.SYS_OPEN_TREE, ", -100, $x, 0"},
	{unix.SYS_OPEN_BY_HANDLE_AT, ", -100, $x, 0"},
	{unix.SYS_SOCKET, ", 40, 1, 0"},     // vsock: the hypervisor's network
	{unix.SYS_SOCKET, ", 17, 3, 0"},     // packet
	{unix.SYS_SOCKET, ", 38, 5, 0"},     // the kernel's cryptography
	{unix.SYS_IOCTL, ", 0, 0x5412, $x"}, // TIOCSTI
	{unix.SYS_IOCTL, ", 0, 0x541c, $x"}, // TIOCLINUX
}

func calls() string {
	s := `perl -e 'my $x = "x";`
	for _, c := range kernel {
		s += fmt.Sprintf(`print syscall(%d%s) == -1 ? "call %d: $!\n" : "%s\n";`, c.number, c.args, c.number, through)
	}
	return s + "'"
}

func notPermitted() []string {
	s := ""
	for _, c := range kernel {
		s += fmt.Sprintf("call %d: Operation not permitted\n", c.number)
	}
	return []string{s}
}

// anybodys is a directory that commands see, and that everyone may write to outside.
func anybodys() string { return filepath.Join(directory, "anybodys") }

func hostiles(node int, secret, tcp string) map[string]hostile {
	pid := strconv.Itoa(node)
	return map[string]hostile{
		"fork bomb": {
			script: `f() { f | f & }; f; sleep 60`, timeout: 2 * time.Second,
			ends: "killed", // at the timeout, or because the first shell cannot fork any more
		},
		"fork bomb, by new sessions": {
			script:  `f() { setsid bash -c "$(declare -f f); f" & setsid bash -c "$(declare -f f); f" & }; f; sleep 60`,
			timeout: 2 * time.Second, ends: "killed",
		},
		"memory, one process": {
			script: `perl -e 'my $x = "x" x 400000000; print length $x'; echo ended $?`,
			says:   []string{"Out of memory", "ended 1"}, never: "400000000",
		},
		"memory, many": {
			script: `for i in 1 2 3 4 5 6 7 8; do ` +
				`(head -c 40000000 /dev/zero | tail -c 40000000 | (sleep 60; cat >/dev/null)) & done; wait`,
			ends: "killed because it used too much: more than 128 MB of memory",
		},
		"memory, shared": {
			script: `perl -e 'my $n = syscall(9, 0, 400 << 20, 3, 0x21, -1, 0); ` +
				`print $n == -1 ? "refused\n" : "mapped\n"; open my $f, "<", "/dev/zero"; ` +
				`syscall(0, fileno($f), $n, 400 << 20); print "` + through + `\n"'`,
			ends: "killed because it used too much: more than 128 MB of memory", never: through,
		},
		"disk": {
			script: `for i in 1 2 3 4; do head -c 3000000 /dev/zero >/tmp/$i || echo full; done; ` +
				`for i in 1 2 3 4; do head -c 3000000 /dev/zero >/dev/shm/$i || echo full; done; ` +
				`df -B1000000 --output=used,target /tmp /dev/shm`,
			says: []string{"No space left on device\nfull\n", "   5 /tmp\n", "   5 /dev/shm\n"},
		},
		"disk, one file": {
			script: `head -c 30000000 /dev/zero >/tmp/x; echo ended $?; ls -s --block-size=1000000 /tmp`,
			says:   []string{"ended 153"},
		},
		"disk, empty files": {
			script: `cd /tmp; mkdir a b; for ((i = 0; ; i++)); do : >a/$i; done`, timeout: 10 * time.Minute,
			ends: "killed because it used too much: more than 50000 files in /tmp",
		},
		"endless output": {script: `exec yes`, timeout: time.Second, ends: "killed: it was not done within 1s"},
		"endless line": {
			script: `exec cat /dev/zero`, timeout: time.Second, ends: "killed: it was not done within 1s",
		},
		"time": {
			script: `trap "" TERM INT HUP; while :; do :; done`, timeout: time.Second,
			ends: "killed: it was not done within 1s",
		},
		"files of the machine": {
			script: try("cat /etc/shadow", "cat /etc/passwd", "ls /root /home /var", "cat "+secret, "ls /sys",
				"ls /run"),
			says: held(6), never: "canary",
		},
		"the node's environment": {
			script: try("cat /proc/"+pid+"/environ", "ls /proc/"+pid+"/fd", "cat /proc/"+pid+"/mem") +
				`cat /proc/*/environ | tr '\0' '\n'; ls -d /proc/[0-9]* | wc -l`,
			says: held(3), never: "DATABASE",
		},
		"its own environment": {
			script: `tr '\0' '\n' </proc/1/environ; env; ls -l /proc/self/fd | wc -l`,
			says: []string{
				"BELFRY_RUN_ID=run_", "TRACEPARENT=00-", "PATH=/usr/local/bin:/usr/bin:/bin\n", "HOME=/tmp\n",
				"LANG=C.UTF-8\n",
			},
			never: "DATABASE",
		},
		"open files": {
			script: `exec perl -e 'opendir my $d, "/proc/self/fd"; for (sort readdir $d) ` +
				`{ my $to = readlink "/proc/self/fd/$_"; ` +
				`print "$_ $to\n" if $_ ne "." && $_ ne ".." && $to !~ m,^/proc/, }'`,
			says: []string{"0 pipe:", "\n1 pipe:", "\n2 pipe:"}, never: "\n3 ",
		},
		"the machine's network": {
			script: try("exec 3<>/dev/tcp/"+strings.Replace(tcp, ":", "/", 1), "exec 3<>/dev/tcp/169.254.169.254/80",
				"exec 3<>/dev/tcp/10.0.0.1/80", "exec 3<>/dev/tcp/1.1.1.1/53", "exec 3<>/dev/tcp/::1/5432"),
			says: held(5),
		},
		"other processes": {
			script: try("kill -9 "+pid, "kill -STOP "+pid, "kill -0 "+pid, "renice 19 "+pid,
				"prlimit --nofile=0 --pid "+pid),
			says: held(5),
		},
		"all processes": {script: `kill -9 -1; exit 3`, ends: "exited with code 3"},
		"its environment": {
			script: "nice; cat /proc/self/oom_score_adj; hostname; id -u; id -g",
			says:   []string{"10\n800\nbelfry\n65534\n65534\n"},
		},
		"its limits": {
			script: "ulimit -c; ulimit -d; ulimit -f; ulimit -l; ulimit -n; ulimit -t; ulimit -u",
			says:   []string{"0\n131072\n4096\n64\n256\n61\n33\n"}, // 61: the timeout and a second
		},
		"its scratch": {script: "stat -c %a /tmp /dev/shm", says: []string{"1777\n1777\n"}},
		// Session 0 would be one outside the sandbox.
		"its session": {
			script: `read -ra stat </proc/self/stat; echo "session ${stat[5]}, terminal ${stat[6]}"`,
			says:   []string{"terminal 0\n"}, never: "session 0,",
		},
		"its pid 1": {script: `kill -9 1; kill -TERM 1; kill -INT 1; echo still`, says: []string{"still"}},
		"mounts": {
			script: try("mount -t tmpfs none /tmp", "mount -o remount,rw /", "mount --bind /usr /tmp", "umount /tmp",
				"umount -l /usr", "unshare -Ur true", "unshare -n true", "chroot / /bin/true", "nsenter -t 1 -m true",
				"pivot_root /tmp /tmp",
				// into a namespace where it is root
				fmt.Sprintf(`perl -e 'exit(syscall(%d, 0x10000011, 0, 0, 0, 0) == -1)'`, unix.SYS_CLONE)),
			says: held(11),
		},
		"writing outside": {
			script: try("echo x >/x", "echo x >/usr/x", "echo x >"+filepath.Join(directory, "x"), "echo x >/dev/x",
				"echo x >/proc/sys/kernel/core_pattern", "echo x >/proc/sysrq-trigger", "echo x >"+program(),
				"mkdir /mnt/x", "ln -s /etc /usr/y", "mknod /tmp/d b 8 0", "mknod /tmp/n c 1 1",
				"echo x >"+anybodys()+"/x"),
			says: append(held(12), "anybodys/x: Read-only file system"),
		},
		"more rights": {
			script: `cp /bin/bash /tmp/root; chmod 6755 /tmp/root; /tmp/root -p -c 'id -u'; ` +
				`grep -E '^(NoNewPrivs|Cap(Prm|Eff|Bnd|Amb)|Seccomp):' /proc/self/status | tr -d '\t'; ` +
				try("su -c true", "setpriv --reuid 0 true", "chown 0 /tmp/root"),
			says: append(held(3), "65534\n", "NoNewPrivs:1", "CapPrm:0000000000000000", "CapEff:0000000000000000",
				"CapBnd:0000000000000000", "CapAmb:0000000000000000", "Seccomp:2"),
		},
		"calls": {script: calls(), says: notPermitted()},
		"namespaces, by clone": {
			script: fmt.Sprintf(`perl -e 'my $n = syscall(%d, 0x10000011, 0, 0, 0, 0); `+
				`print $n == -1 ? "held\n" : "%s\n"'`, unix.SYS_CLONE, through),
			says: []string{"held\n"},
		},
		"sockets it may have": {
			script: `perl -MSocket -e 'for (AF_UNIX, AF_INET, AF_INET6) ` +
				`{ socket(my $s, $_, SOCK_STREAM, 0) or die "$_: $!"; } print "all\n"'`,
			says: []string{"all\n"},
		},
		"a terminal": {
			script: try("exec 3<>/dev/tty", "exec 3<>/dev/console", "exec 3<>/dev/vda", "exec 3<>/dev/mem",
				"exec 3<>/dev/kmsg"),
			says: held(5),
		},
		"a long answer": {
			script: `printf '\033]0;title\007\033[31mred\033[0m \xff\xfe \342\200\256rtl\000 \a\b done\rover\n'`,
			says:   []string{"over\n"}, never: "red",
		},
	}
}

// TestEscapesAreHeld runs the hostile scripts. Each is contained, another command on the same runner is not
// affected, and nothing is left behind.
func TestEscapesAreHeld(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Error("a command reached the network")
			_ = conn.Close()
		}
	}()
	require.NoError(t, os.MkdirAll(anybodys(), 0o755))
	require.NoError(t, os.Chmod(anybodys(), 0o777))
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("canary"), 0o644))
	opts := options(t)
	opts.Memory, opts.Processes, opts.Scratch, opts.Slots = 128<<20, 32, 4<<20, 3
	target := start(t, opts)
	marker := "marker-" + uuid.NewString()
	before := mounts(t)
	for name, h := range hostiles(os.Getpid(), secret, listener.Addr().String()) {
		t.Run(name, func(t *testing.T) {
			done := make(chan job.Outcome, 1)
			go func() {
				done <- target.Deliver(t.Context(), attempt(script("echo here; echo neighbour"), time.Minute))
			}()
			h.check(t, target.Deliver(t.Context(),
				attempt(script(": "+marker+"\n"+h.script), cmp.Or(h.timeout, time.Minute))))
			neighbour := <-done
			require.Equal(t, job.Outcome{Kind: job.Succeeded, Output: "here\nneighbour\n", OutputTotal: 15}, neighbour)
			require.Empty(t, processes(t, marker))
		})
	}
	require.Equal(t, before, mounts(t))
}

// TestAToolOfTheListRunsNoOther: tar would start what its variable names, and run the job's input as a script.
func TestAToolOfTheListRunsNoOther(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Programs = append(opts.Programs, "/bin/tar")
	const config = `{"program": "/bin/tar", "args": ["-cf", "/dev/null", "/bin/tar"], "stdin": "echo ran it\n"%s}`
	target := start(t, opts)
	got := target.Deliver(t.Context(), attempt(fmt.Sprintf(config, ""), time.Minute))
	require.Equal(t, job.Succeeded, got.Kind, got.Message)
	got = target.Deliver(t.Context(), attempt(fmt.Sprintf(config,
		`, "env": {"TAR_OPTIONS": "--checkpoint=1 --checkpoint-action=exec=sh\\ /dev/stdin"}`), time.Minute))
	require.NotContains(t, got.Output, "ran it")
	require.Equal(t, job.Failed, got.Kind)
}

func (h *hostile) check(t *testing.T, got job.Outcome) {
	t.Helper()
	require.LessOrEqual(t, len(got.Output), command.MaxOutput)
	if h.ends == "" {
		require.Equal(t, job.Succeeded, got.Kind, got)
	} else {
		require.Equal(t, job.Failed, got.Kind, got)
		require.True(t, strings.HasPrefix(got.Message, h.ends), got.Message)
	}
	require.NotContains(t, got.Output, through)
	for _, s := range h.says {
		require.Contains(t, got.Output, s)
	}
	if h.never != "" {
		require.NotContains(t, got.Output, h.never)
	}
}

// mounts returns the machine's mounts, except those of containers that run at the same time.
func mounts(t *testing.T) (out []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "/containers/") && !strings.Contains(line, "-containers/") {
			out = append(out, line)
		}
	}
	return out
}

// processes returns the processes that have a text in their arguments.
func processes(t *testing.T, text string) (out []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range all {
		if args, err := os.ReadFile(file); err == nil && strings.Contains(string(args), text) {
			out = append(out, string(args))
		}
	}
	return out
}

// TestNamespaces: a command shares no namespace with the machine, except time.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.User = 64321 // no other process has it, to check that a command does not either
	got := start(t, opts).Deliver(t.Context(),
		attempt(script("for n in cgroup ipc mnt net pid user uts; do readlink /proc/self/ns/$n; done; id -u; id -g"),
			time.Minute))
	require.Equal(t, job.Succeeded, got.Kind, got)
	lines := strings.Fields(got.Output)
	require.Len(t, lines, 9)
	for _, line := range lines[:7] {
		kind, _, _ := strings.Cut(line, ":")
		ours, err := os.Readlink("/proc/self/ns/" + kind)
		require.NoError(t, err)
		require.NotEqual(t, ours, line)
	}
	require.Equal(t, []string{"65534", "65534"}, lines[7:])
}

// TestARunnerOfRoot: no setting allows it, and no sandbox can be created in that of such a runner.
func TestARunnerOfRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("it takes root")
	}
	opts := options(t)
	opts.User = 0
	require.ErrorContains(t, command.New(opts).Start(t.Context()), "commands cannot be run here: ")
}

// TestNothingOutlivesACommand: a daemon, or a process that keeps the output open, does not keep a command
// from ending, and does not survive it.
func TestNothingOutlivesACommand(t *testing.T) {
	t.Parallel()
	target := start(t, options(t))
	marker := "86399." + strconv.Itoa(os.Getpid())
	got := target.Deliver(t.Context(),
		attempt(script(`setsid nohup sleep `+marker+` & (setsid sleep `+marker+` &) ; `+
			`sleep `+marker+` >/dev/null 2>&1 & echo done`), time.Minute))
	require.Equal(t, job.Outcome{Kind: job.Succeeded, Output: "done\n", OutputTotal: 5}, got)
	require.Empty(t, processes(t, marker))
}

// TestLinksDoNotWidenTheList: a link among the programs to another program, and a path that leads elsewhere.
func TestLinksDoNotWidenTheList(t *testing.T) {
	t.Parallel()
	target := start(t, options(t))
	link := filepath.Join(directory, uuid.NewString())
	require.NoError(t, os.Symlink("/usr/bin/env", link))
	for _, path := range []string{link, "/usr/bin/env", "/bin/shx", "/usr/bin", directory} {
		got := target.Deliver(t.Context(), attempt(`{"program": "`+path+`"}`, time.Minute))
		require.Equal(t, job.Failed, got.Kind, path)
		require.False(t, got.Retryable, path)
		require.Contains(t, got.Message, "not run: ", path)
	}
	for _, path := range []string{directory + "/../../usr/bin/env", "env", "./x", "/bin//sh"} {
		require.Error(t, target.Check(json.RawMessage(`{"program": "`+path+`"}`)), path)
	}
	got := target.Deliver(t.Context(), attempt(`{"program": "/bin/sh", "network": true}`, time.Minute))
	require.Equal(t, "not run: the node allows no network; its operator can, with command.network", got.Message)
}
