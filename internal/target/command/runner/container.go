package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/loop"
)

const (
	// Labels of a container: the run and attempt, the node, and when it must be gone, in Unix seconds.
	labelRun   = "dev.belfry.run"
	labelNode  = "dev.belfry.node"
	labelUntil = "dev.belfry.until"
	// removeTime is how long Docker may take to kill and remove a container.
	removeTime = 30 * time.Second
	// sweepInterval is how often containers that crashes left behind are removed.
	sweepInterval = time.Minute
	// cpus that a container may use.
	cpus = 1
)

// containers runs commands in containers of Docker or Podman, through its socket. Whoever can use that socket
// is root on the machine, so commands never see it.
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
		return fmt.Errorf("command.container_socket does not respond; is Docker or Podman running, "+
			"and may the user of command.user use the socket? %w", err)
	}
	return b.sweepOnce(ctx, true)
}

// sweep removes containers that crashes left behind, until ctx ends.
func (b *containers) sweep(ctx context.Context) {
	loop.Loop{
		Name: "containers", Title: "container sweep", Log: slog.New(slog.DiscardHandler),
		Once: func(ctx context.Context) (time.Duration, error) { return sweepInterval, b.sweepOnce(ctx, false) },
	}.Run(ctx)
}

// sweepOnce removes the containers of all nodes that are past their time. When a runner starts, it also
// removes those of the node's previous runners, because a node has one runner at a time.
func (b *containers) sweepOnce(ctx context.Context, starting bool) error {
	found, err := b.docker.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", labelUntil),
	})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	for _, c := range found.Items {
		until, err := strconv.ParseInt(c.Labels[labelUntil], 10, 64)
		if err != nil || clock.Now().Unix() > until || starting && c.Labels[labelNode] == b.settings.Node {
			b.remove(ctx, c.ID)
		}
	}
	return nil
}

// remove kills a container and removes it. If that fails, the sweep does it later.
func (b *containers) remove(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	// Without this, Podman would ask the container to stop first, and wait.
	_, _ = b.docker.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "KILL"})
	_, _ = b.docker.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
}

func (b *containers) run(ctx context.Context, s *Spec, output outputFunc) Result {
	created, err := b.docker.ContainerCreate(ctx, b.options(s))
	if err != nil {
		if errdefs.IsNotFound(err) {
			return Result{End: NotStarted, Detail: "the image is not on this node; " +
				"its operator can pull it, which Belfry does not do by itself"}
		}
		return b.failed(ctx, "create the container", err)
	}
	id := created.ID
	defer b.remove(ctx, id)
	attached, err := b.docker.ContainerAttach(ctx, id, client.ContainerAttachOptions{
		Stream: true, Stdin: true, Stdout: true, Stderr: true,
	})
	if err != nil {
		// Podman prepares the container at this point, but only start returns why it failed.
		if _, e := b.docker.ContainerStart(ctx, id, client.ContainerStartOptions{}); e != nil {
			err = e
		}
		return b.failed(ctx, "attach to the container", err)
	}
	defer attached.Close()
	// Without this, reading ends only when the container is removed, or never.
	stop := context.AfterFunc(ctx, attached.Close)
	defer stop()
	if _, err := b.docker.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return b.failed(ctx, "start the container", err)
	}
	b.copyStreams(ctx, s, &attached, output)
	return b.wait(ctx, id)
}

// copyStreams passes the input to a container, and its output on until it ends.
func (*containers) copyStreams(
	ctx context.Context, s *Spec, attached *client.ContainerAttachResult, output outputFunc,
) {
	go func() {
		_, _ = attached.Conn.Write(s.Stdin) // a command may not read its input
		_ = attached.CloseWrite()
	}()
	read, write := io.Pipe()
	go func() {
		_, err := stdcopy.StdCopy(write, write, attached.Reader)
		_ = write.CloseWithError(err)
	}()
	follow(ctx, read, output)
}

// wait waits until a container ends. It may have closed its output before.
func (b *containers) wait(ctx context.Context, id string) Result {
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

// ended returns the result of a container that exited with a code.
func (b *containers) ended(ctx context.Context, id string, code int) Result {
	got, err := b.docker.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err == nil && got.Container.State != nil && got.Container.State.OOMKilled {
		return Result{End: TooMuch, Detail: fmt.Sprintf("more than %d MB of memory", b.settings.Memory>>20)}
	}
	return Result{End: Exited, Code: code}
}

// failed returns the result if a step failed, or was cancelled.
func (*containers) failed(ctx context.Context, step string, err error) Result {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		return Result{End: TimedOut}
	case cause != nil:
		return Result{End: Stopped}
	}
	return Result{End: NotStarted, Detail: step + ": " + err.Error()}
}

func (b *containers) options(s *Spec) client.ContainerCreateOptions {
	network := container.NetworkMode("none")
	if s.Network {
		network = "bridge" // with its own addresses, not those of the machine
	}
	scratch := strconv.FormatInt(b.settings.Scratch, 10)
	pids := int64(b.settings.Processes)
	c := &container.Config{
		Image: s.Image, Cmd: s.Args, Env: append([]string{"HOME=/tmp"}, s.Env...),
		User: nobody + ":" + nobody, WorkingDir: "/tmp",
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
		NetworkMode: network, ReadonlyRootfs: true,
		CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
		Tmpfs:     map[string]string{"/tmp": "rw,nosuid,nodev,mode=1777,size=" + scratch},
		ShmSize:   b.settings.Scratch,
		LogConfig: container.LogConfig{Type: "none"}, // output is stored by Belfry only
		IpcMode:   "private",
		Resources: container.Resources{
			Memory: b.settings.Memory, MemorySwap: b.settings.Memory, PidsLimit: &pids, NanoCPUs: cpus * 1e9,
			// Both are set because Podman's defaults exceed what some machines allow. nproc counts the processes
			// of all containers together, because they have the same user. PidsLimit applies to each.
			Ulimits: []*container.Ulimit{
				{Name: "nofile", Soft: maxFiles, Hard: maxFiles}, {Name: "nproc", Soft: 4096, Hard: 4096},
			},
		},
	}}
}
