package runner

import (
	"bytes"
	"encoding/binary"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// denied are the system calls that a command may not make: parts of the kernel that exploits used, and what
// namespaces do not isolate. Most of them also need capabilities that a command does not have.
var denied = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, // keyrings belong to a user, not to a namespace
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
	// Memory that neither rlimits nor supervise count.
	unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_MQ_OPEN,
}

// families are the allowed socket families. Others, such as vsock, bypass the network namespace.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// terminals are the denied ioctl requests: they inject input into a terminal.
var terminals = []uint32{unix.TIOCSTI, unix.TIOCLINUX}

var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// Offsets in struct seccomp_data on little-endian machines.
const (
	callAt     = 0
	archAt     = 4
	argumentAt = 16
)

// filter returns the BPF program that the kernel runs for each system call.
func filter() (out []unix.SockFilter) {
	load := func(at uint32) {
		out = append(out, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at})
	}
	// jump skips then or otherwise instructions, depending on the loaded value.
	jump := func(code uint16, value uint32, then, otherwise uint8) {
		out = append(out, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | code, K: value, Jt: then, Jf: otherwise})
	}
	end := func(action uint32) {
		out = append(out, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action})
	}
	const refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	// System calls of another architecture have other numbers.
	load(archAt)
	jump(unix.BPF_JEQ, architectures[runtime.GOARCH], 1, 0)
	end(unix.SECCOMP_RET_KILL_PROCESS)
	load(callAt)
	jump(unix.BPF_JGE, 0x40000000, 0, 1) // and so have those of x32 on amd64
	end(refuse)
	for _, call := range denied {
		jump(unix.BPF_JEQ, call, 0, 1)
		end(refuse)
	}
	jump(unix.BPF_JEQ, unix.SYS_IOCTL, 0, uint8(2*len(terminals)+2))
	load(argumentAt + 8)
	for _, request := range terminals {
		jump(unix.BPF_JEQ, request, 0, 1)
		end(refuse)
	}
	end(unix.SECCOMP_RET_ALLOW)
	jump(unix.BPF_JEQ, unix.SYS_SOCKET, 1, 0)
	end(unix.SECCOMP_RET_ALLOW)
	load(argumentAt)
	for _, family := range families {
		jump(unix.BPF_JEQ, family, 0, 1)
		end(unix.SECCOMP_RET_ALLOW)
	}
	end(refuse)
	return out
}

// filterFile returns a pipe from which bwrap reads the filter.
func filterFile() (*os.File, error) {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.NativeEndian, filter()); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = w.Write(b.Bytes()) // it fits into the pipe's buffer
	_ = w.Close()
	return r, err
}
