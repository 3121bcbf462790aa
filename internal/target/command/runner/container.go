package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/belfry-dev/belfry/internal/clock"
)

const (
	// The labels of a container: what it is for, which node's it is, and when it has to be
	// gone, in seconds since 1970.
	labelRun   = "dev.belfry.run"
	labelNode  = "dev.belfry.node"
	labelUntil = "dev.belfry.until"
	// removeTime is for Docker to kill and remove a container.
	removeTime = 30 * time.Second
	// sweepPause is how often what crashes left is looked for.
	sweepPause = time.Minute
	// cpus that a container may use.
	cpus = 1
)

// containers runs commands in containers of Docker or Podman, by its socket.
// Whoever has that socket is root on the machine, so commands never see it.
type containers struct {
	settings *Settings
	docker   *client.Client
}

func newContainers(s *Settings) (*containers, error) {
	docker, err := client.New(client.WithHost("unix://" + s.Socket))
	if err != nil {
		return nil, fmt.Errorf("open command.container_socket: %w", err)
	}
	return &containers{s, docker}, nil
}

func (b *containers) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := b.docker.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return fmt.Errorf("nobody answers at command.container_socket; is Docker or Podman running, and may the user of command.user use the socket? %w", err)
	}
	return b.sweepOnce(ctx, true)
}

// sweep removes what crashes left, until ctx ends.
func (b *containers) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = b.sweepOnce(ctx, false) // it is tried again
		case <-ctx.Done():
			return
		}
	}
}

// sweepOnce removes containers past their time, whoever made them, and, when a
// runner begins, all of the runners before it: the node has one at a time.
func (b *containers) sweepOnce(ctx context.Context, begins bool) error {
	found, err := b.docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", labelUntil)})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	for _, c := range found.Items {
		until, err := strconv.ParseInt(c.Labels[labelUntil], 10, 64)
		if err != nil || clock.Now().Unix() > until || begins && c.Labels[labelNode] == b.settings.Node {
			b.remove(ctx, c.ID)
		}
	}
	return nil
}

// remove kills a container and removes it. What fails is swept later.
func (b *containers) remove(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	// Podman would else ask it to stop first, and wait.
	_, _ = b.docker.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "KILL"})
	_, _ = b.docker.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
}

func (b *containers) run(ctx context.Context, s *Spec, output func(part []byte, skipped int64)) Result {
	made, err := b.docker.ContainerCreate(ctx, b.options(s))
	if err != nil {
		if errdefs.IsNotFound(err) {
			return Result{End: NotStarted, Detail: "the image is not on this node; its operator can pull it, which Belfry does not do by itself"}
		}
		return b.failed(ctx, "make the container", err)
	}
	defer b.remove(ctx, made.ID)
	attached, err := b.docker.ContainerAttach(ctx, made.ID, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		// Podman prepares the container here already, and why it cannot is told at the start alone.
		if _, e := b.docker.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); e != nil {
			err = e
		}
		return b.failed(ctx, "attach to the container", err)
	}
	defer attached.Close()
	stop := context.AfterFunc(ctx, attached.Close) // its end comes when its container is removed, or never
	defer stop()
	if _, err := b.docker.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		return b.failed(ctx, "start the container", err)
	}
	return b.attend(ctx, made.ID, s, &attached, output)
}

// attend gives a container its input, tells its output and waits for its end.
func (b *containers) attend(ctx context.Context, id string, s *Spec, attached *client.ContainerAttachResult, output func(part []byte, skipped int64)) Result {
	go func() {
		_, _ = attached.Conn.Write(s.Stdin) // who does not read it has no need of it
		_ = attached.CloseWrite()
	}()
	read, write := io.Pipe()
	go func() {
		_, err := stdcopy.StdCopy(write, write, attached.Reader)
		_ = write.CloseWithError(err)
	}()
	follow(ctx, read, output)
	// Who closes its output and goes on is waited for.
	waited := b.docker.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case w := <-waited.Result:
		return b.ended(ctx, id, int(w.StatusCode))
	case err := <-waited.Error:
		r := b.failed(ctx, "wait for the container", err)
		if r.End == NotStarted {
			r.End = Lost
		}
		return r
	}
}

// ended is the result of a container that has, by its code.
func (b *containers) ended(ctx context.Context, id string, code int) Result {
	got, err := b.docker.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err == nil && got.Container.State != nil && got.Container.State.OOMKilled {
		return Result{End: TooMuch, Detail: fmt.Sprintf("more than %d MB of memory", b.settings.Memory>>20)}
	}
	return Result{End: Exited, Code: code}
}

// failed is the result of a step that did not work, or was given up.
func (*containers) failed(ctx context.Context, what string, err error) Result {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		return Result{End: TimedOut}
	case cause != nil:
		return Result{End: Stopped}
	}
	return Result{End: NotStarted, Detail: what + ": " + err.Error()}
}

func (b *containers) options(s *Spec) client.ContainerCreateOptions {
	network := container.NetworkMode("none")
	if s.Network {
		network = "bridge" // its own addresses, and not those of the machine
	}
	scratch := strconv.FormatInt(b.settings.Scratch, 10)
	pids := int64(b.settings.Processes)
	c := &container.Config{
		Image: s.Image, Cmd: s.Args, Env: append([]string{"HOME=/tmp"}, s.Env...), User: nobody + ":" + nobody, WorkingDir: "/tmp",
		AttachStdin: true, AttachStdout: true, AttachStderr: true, OpenStdin: true, StdinOnce: true,
		NetworkDisabled: !s.Network,
		Labels: map[string]string{
			labelRun: s.Label, labelNode: b.settings.Node,
			labelUntil: strconv.FormatInt(clock.Now().Add(s.Timeout+removeTime).Unix(), 10),
		},
	}
	if s.Program != "" {
		c.Entrypoint = []string{s.Program}
	}
	return client.ContainerCreateOptions{Config: c, HostConfig: &container.HostConfig{
		NetworkMode: network, ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
		Tmpfs:     map[string]string{"/tmp": "rw,nosuid,nodev,mode=1777,size=" + scratch},
		ShmSize:   b.settings.Scratch,
		LogConfig: container.LogConfig{Type: "none"}, // what it writes is nowhere but here
		IpcMode:   "private",
		Resources: container.Resources{
			Memory: b.settings.Memory, MemorySwap: b.settings.Memory, PidsLimit: &pids, NanoCPUs: cpus * 1e9,
			// Both are named because Podman's own are more than some machines allow. Processes are counted for
			// all containers together, whose user is the same; what holds for each is PidsLimit.
			Ulimits: []*container.Ulimit{{Name: "nofile", Soft: maxFiles, Hard: maxFiles}, {Name: "nproc", Soft: 4096, Hard: 4096}},
		},
	}}
}
