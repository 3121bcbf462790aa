//go:build linux

package command_test

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/command"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

// containerOptions returns the options of a node that runs the image of dev/services up podman.
func containerOptions(t *testing.T) command.Options {
	t.Helper()
	socket := os.Getenv("BELFRY_TEST_CONTAINER_SOCKET")
	if socket == "" {
		t.Skip("no Podman: dev/services up podman, and set what dev/services env podman prints")
	}
	opts := options(t)
	opts.Socket, opts.Images = socket, []string{image()}
	opts.Slots = 8 // of which a namespace that is alone may have 6
	return opts
}

func image() string { return os.Getenv("BELFRY_TEST_CONTAINER_IMAGE") }

// docker returns a client for the containers.
func docker(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.WithHost("unix://" + os.Getenv("BELFRY_TEST_CONTAINER_SOCKET")))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func inImage(script string) string {
	config, err := json.Marshal(map[string]any{"image": image(), "program": "/bin/sh", "args": []string{"-c", script}})
	if err != nil {
		panic(err) //nolint:forbidigo // strings always marshal
	}
	return string(config)
}

// containersOf returns the containers of attempts by their label.
func containersOf(t *testing.T, c *client.Client, label string) (ids []string) {
	t.Helper()
	found, err := c.ContainerList(context.WithoutCancel(t.Context()),
		client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", "dev.belfry.run")})
	require.NoError(t, err)
	for _, one := range found.Items {
		if strings.HasPrefix(one.Labels["dev.belfry.run"], label) {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

// A container shares neither the network nor a file with the test. The behaviour is passed as a variable, the
// first line of output contains what the container received, and a signal releases it.
const contained = `trap 'exit 0' USR1
echo "DELIVERY $BELFRY_IDEMPOTENCY_KEY $BELFRY_RUN_ID $BELFRY_JOB $BELFRY_DUE_AT $BELFRY_ATTEMPT $TRACEPARENT $(cat)"
case $BEHAVE in
hang) while :; do sleep 0.05; done ;;
huge*) yes | head -c 8000000 ;;
echo) env ;;
esac
case $BEHAVE in final) exit 1 ;; later|echo|hugefail) exit 75 ;; esac`

var behaviours = map[targettest.Behaviour]string{
	targettest.Succeed: "ok", targettest.FailRetryable: "later", targettest.FailFinal: "final", targettest.Hang: "hang",
	targettest.Huge: "huge", targettest.HugeFailure: "hugefail", targettest.Echo: "echo", targettest.Down: "down",
}

// box is the server of the suite. It wraps the target.
type box struct {
	t        *testing.T
	docker   *client.Client
	received chan targettest.Delivery

	mu     sync.Mutex
	behave string
}

func (b *box) Behave(to targettest.Behaviour) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.behave = behaviours[to]
}

// Release releases the containers of this box. All have the same run.
func (b *box) Release() {
	ctx := context.WithoutCancel(b.t.Context())
	for _, id := range containersOf(b.t, b.docker, "") {
		got, err := b.docker.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if err == nil && slices.Contains(got.Container.Config.Env, "BOX="+b.t.Name()) {
			_, _ = b.docker.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "USR1"})
		}
	}
}

func (b *box) Config() json.RawMessage {
	config, err := json.Marshal(map[string]any{
		"image": image(), "program": "/bin/sh", "args": []string{"-c", contained},
		"env": map[string]any{
			"TOKEN": map[string]string{"secret": targettest.SecretName}, "BEHAVE": "ok", "BOX": b.t.Name(),
		},
	})
	if err != nil {
		panic(err) //nolint:forbidigo // strings always marshal
	}
	return config
}

func (b *box) Received() <-chan targettest.Delivery { return b.received }

// behaving is a target that controls what its commands do.
type behaving struct {
	*command.Target
	box *box
}

func (w *behaving) Deliver(ctx context.Context, a job.Attempt) job.Outcome {
	w.box.mu.Lock()
	behave := cmp.Or(w.box.behave, "ok")
	w.box.mu.Unlock()
	if behave == "down" {
		a.Config = strings.Replace(a.Config, image(), "localhost/belfry-none:1", 1)
	}
	a.Config = strings.Replace(a.Config, `"BEHAVE":"ok"`, `"BEHAVE":"`+behave+`"`, 1)
	done := make(chan job.Outcome, 1)
	go func() { done <- w.Target.Deliver(ctx, a) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	delivered := false
	for {
		select {
		case out := <-done:
			if !delivered {
				w.box.deliver(out.Output)
			}
			return out
		case <-tick.C:
			for _, o := range w.Outputs() {
				delivered = w.box.deliver(o.Text) || delivered
			}
		}
	}
}

// deliver passes on what a container printed about its delivery, and reports whether it did.
func (b *box) deliver(text string) bool {
	line, _, found := strings.Cut(text, "\n")
	f := strings.SplitN(line, " ", 8)
	if !found || len(f) != 8 || f[0] != "DELIVERY" {
		return false
	}
	b.received <- targettest.Delivery{
		IdempotencyKey: f[1], RunID: f[2], JobID: f[3], DueAt: f[4], Attempt: f[5], Traceparent: f[6], Payload: f[7],
	}
	return true
}

//nolint:paralleltest // containers are slow to start: one after the other
func TestConformanceOfContainers(t *testing.T) {
	containerOptions(t)
	var mu sync.Mutex
	boxes := map[string]*box{}
	find := func(t *testing.T) *box {
		mu.Lock()
		defer mu.Unlock()
		if boxes[t.Name()] == nil {
			boxes[t.Name()] = &box{t: t, docker: docker(t), received: make(chan targettest.Delivery, 1000)}
		}
		return boxes[t.Name()]
	}
	targettest.Run(t, targettest.Suite{
		New: func(t *testing.T, g targettest.Environment) targettest.Target {
			opts := containerOptions(t)
			opts.Log, opts.Secrets, opts.Images = g.Log, g.Secrets, []string{image(), "localhost/belfry-none:1"}
			return &behaving{start(t, opts), find(t)}
		},
		Start: func(t *testing.T) targettest.Server { return find(t) },
		// A container takes a second to start on a busy machine.
		Concurrent: 6,
	})
}

// TestContainersAreHeld: what a container may not do. Nothing of it is left behind.
func TestContainersAreHeld(t *testing.T) {
	t.Parallel()
	opts := containerOptions(t)
	opts.Memory, opts.Processes, opts.Scratch = 32<<20, 16, 4<<20
	target, c := start(t, opts), docker(t)
	for name, h := range map[string]hostile{
		"rights": {
			script: `id; cat /proc/self/status | while read a b; do ` +
				`case $a in NoNewPrivs:|Cap[PEB]*|Seccomp:) echo $a $b;; esac; done`,
			says: []string{
				"uid=65534", "CapPrm: 0000000000000000", "CapEff: 0000000000000000", "CapBnd: 0000000000000000",
				"NoNewPrivs: 1", "Seccomp: 2",
			},
		},
		"writing": {
			script: strings.ReplaceAll(try("echo x >/x", "echo x >/bin/x", "echo x >/etc/x", "mount -t tmpfs none /tmp",
				"echo 1 >/proc/sysrq-trigger", "cd /proc/1 && cat root/etc/shadow"), "2>&1", "2>/dev/null"),
			says: held(6),
		},
		"mounts": {
			script: `while read from to kind how more; do echo "$to,$how,"; done </proc/mounts`,
			says:   []string{"/,ro,", "/tmp,rw,nosuid,nodev,", "size=4096k"},
		},
		// Podman lets containers write there. It counts as memory.
		"swollen": {script: `for d in /run /var/tmp; do head -c 100000000 /dev/zero >$d/x; done`, ends: "killed "},
		"cpu": {
			script: `cd /sys/fs/cgroup; for f in cpu.max cpu/cpu.cfs_quota_us; do ` +
				`[ -e $f ] && read most more <$f && echo cpu $most; done`,
			says: []string{"cpu 100000\n"},
		},
		"network": {script: `ls /sys/class/net`, says: []string{"lo\n"}, never: "eth"},
		"memory":  {script: `head -c 200000000 /dev/zero | tail`, ends: "killed "},
		"forks": {
			script: `f() { f | f & }; f & while :; do :; done`, timeout: 3 * time.Second,
			ends: "killed: it was not done within 3s",
		},
		"processes": {
			// The shell counts the processes itself, without starting another.
			script: `(i=0; while [ $i -lt 40 ]; do sleep 60 & i=$((i + 1)); done) 2>/dev/null; ` +
				`set -- /proc/[0-9]*; [ $# -gt 10 ] && [ $# -le 16 ] && echo so many`,
			says: []string{"so many\n"},
		},
		"open files": {script: `ulimit -n; ulimit -u`, says: []string{"256\n4096\n"}},
		"disk": {
			script: `head -c 3000000 /dev/zero >/tmp/a && head -c 3000000 /dev/zero >/tmp/b || echo full`,
			says:   []string{"full\n"},
		},
		"shared": {
			script: `head -c 3000000 /dev/zero >/dev/shm/a && head -c 3000000 /dev/zero >/dev/shm/b || echo full`,
			says:   []string{"full\n"},
		},
		"output": {script: `yes`, timeout: 3 * time.Second, ends: "killed: it was not done within 3s"},
		"daemon": {script: `(sleep 600 >/dev/null 2>&1 &) ; echo gone`, says: []string{"gone\n"}},
		"code":   {script: `exit 3`, ends: "exited with code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			a := attempt(inImage(h.script), cmp.Or(h.timeout, time.Minute))
			h.check(t, target.Deliver(t.Context(), a))
			require.Empty(t, containersOf(t, c, job.FormatRunID(a.Key)))
		})
	}
	got := target.Deliver(t.Context(), attempt(`{"image": "localhost/other:1"}`, time.Minute))
	require.Equal(t, "not run: localhost/other:1 is not among the images that this node runs; "+
		"its operator can add it to command.images", got.Message)
}

// TestHowContainersAreMade checks what a command itself cannot see.
func TestHowContainersAreMade(t *testing.T) {
	t.Parallel()
	opts := containerOptions(t)
	target, c := start(t, opts), docker(t)
	a := attempt(inImage("echo begun; sleep 600"), time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan job.Outcome, 1)
	go func() { done <- target.Deliver(ctx, a) }()
	require.Eventually(t, func() bool { return len(target.Outputs()) == 1 }, time.Minute, 10*time.Millisecond)
	ids := containersOf(t, c, job.FormatRunID(a.Key))
	require.Len(t, ids, 1)
	got, err := c.ContainerInspect(t.Context(), ids[0], client.ContainerInspectOptions{})
	require.NoError(t, err)
	how := got.Container.HostConfig
	require.Equal(t, opts.Memory, how.Memory)
	require.Equal(t, opts.Memory, how.MemorySwap, "memory and swap together")
	require.Equal(t, "none", how.LogConfig.Type)
	require.False(t, how.IpcMode.IsHost())
	require.False(t, how.Privileged)
	require.Empty(t, how.Binds)
	require.Empty(t, how.Devices)
	cancel()
	require.True(t, (<-done).Retryable)
	require.Empty(t, containersOf(t, c, job.FormatRunID(a.Key)))
}

// TestContainersOfADeadRunner: the next runner removes them.
func TestContainersOfADeadRunner(t *testing.T) {
	t.Parallel()
	target, c := start(t, containerOptions(t)), docker(t)
	_, _, pid := begin(t, target, time.Minute)
	a := attempt(inImage("echo begun; sleep 600"), time.Minute)
	done := make(chan job.Outcome, 1)
	go func() { done <- target.Deliver(t.Context(), a) }()
	require.Eventually(t, func() bool { return len(containersOf(t, c, job.FormatRunID(a.Key))) == 1 }, time.Minute,
		10*time.Millisecond)
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	require.True(t, (<-done).Retryable)
	require.Eventually(t, func() bool { return len(containersOf(t, c, job.FormatRunID(a.Key))) == 0 }, time.Minute,
		20*time.Millisecond)
}
