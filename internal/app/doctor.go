package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/app/archiving"
	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/doctor"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/seal"
)

// inspectLimit bounds the whole inspection.
const inspectLimit = 30 * time.Second

// Doctor inspects the database, the cluster and this machine, and judges what it finds. It changes nothing, except
// that it writes an object to the archive, if there is one, and removes it. With pre,
// it checks only what matters before the installation. maxTransaction is how long a transaction may be open.
func Doctor(ctx context.Context, c Config, pre bool, maxTransaction time.Duration) ([]doctor.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectLimit)
	defer cancel()
	db, err := postgres.Open(ctx, c.DatabaseURL, 1, postgres.Options{})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	f := doctor.Facts{Pre: pre, MaxTransaction: maxTransaction}
	f.Database, f.Cluster, err = db.Admin().Inspect(ctx)
	if u := postgres.AsUnreachable(err); u != nil {
		f.Database.Unreachable = fmt.Sprintf("cannot connect to %s as %s: %s", u.Hosts, u.User, u.Reason)
	} else if err != nil {
		return nil, err
	}
	f.Machine.Now = clock.Now()
	known, err := postgres.KnownSchema()
	if err != nil {
		return nil, err
	}
	f.Database.SchemaNeeded, f.Database.SchemaLatest = known.Needed, known.Latest
	inspectMachine(ctx, c, &f.Machine)
	if f.Cluster != nil && len(f.Cluster.Nodes) > 0 {
		f.Machine.Self = probeAPI(ctx, c)
	}
	return doctor.Judge(f), nil
}

func inspectMachine(ctx context.Context, c Config, m *doctor.Machine) {
	if c.TLSCert != "" {
		m.Certificate = inspectCertificate(c)
	}
	if c.Command.Enabled {
		m.Sandbox = probeSandbox(ctx, c)
	}
	if c.Archive.URL != "" {
		m.Archive = probeArchive(ctx, c)
	}
}

// memoryLimit returns the lowest limit of this process's control group and those above it, 0 if there is none. In a
// container its own group is the root.
func memoryLimit(system fs.FS) (lowest uint64) {
	own, err := fs.ReadFile(system, "proc/self/cgroup")
	if err != nil {
		return 0 // another system than Linux
	}
	_, group, _ := strings.Cut("\n"+string(own), "\n0::") // version 1 has other lines
	group, _, _ = strings.Cut(group, "\n")
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		text, err := fs.ReadFile(system, path.Join("sys/fs/cgroup", group, "memory.max"))
		limit, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64) // "max": no limit
		if err == nil && bad == nil && (lowest == 0 || limit < lowest) {
			lowest = limit
		}
		if group == "/" {
			return lowest
		}
	}
}

func inspectCertificate(c Config) *doctor.Certificate {
	pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return &doctor.Certificate{Problem: fmt.Sprintf("read tls_cert and tls_key: %v", err)}
	}
	return &doctor.Certificate{Expires: pair.Leaf.NotAfter}
}

// probeAPI asks the address under which others reach the API whether it is alive.
func probeAPI(ctx context.Context, c Config) doctor.Probe {
	to := c.API.URL
	if to == "" {
		scheme := "http"
		if c.TLSCert != "" {
			scheme = "https"
		}
		to = scheme + "://" + c.Listen
	}
	p := doctor.Probe{Asked: true, What: to}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(to, "/")+"/healthz", nil)
	if err != nil {
		p.Problem = err.Error()
		return p
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.Problem = err.Error()
		return p
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<10))
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		p.Problem = response.Status
	}
	return p
}

// probeSandbox starts the runner of commands as a node does at its start, and stops it.
func probeSandbox(ctx context.Context, c Config) doctor.Probe {
	p := doctor.Probe{Asked: true}
	t, err := startCommands(ctx, c, commandStore{}, slog.New(slog.DiscardHandler))
	if err != nil {
		p.Problem = err.Error()
		return p
	}
	t.Close()
	return p
}

// archiveProbe is how long a probe of the archive may take.
const archiveProbe = 10 * time.Second

// probeArchive writes, lists and removes an object, as a node does before it exports the first day. In a directory it does
// so only if root does not write for another user: nodes could not write to directories that root created.
func probeArchive(ctx context.Context, c Config) doctor.Probe {
	ctx, cancel := context.WithTimeout(ctx, archiveProbe)
	defer cancel()
	p := doctor.Probe{Asked: true, What: c.Archive.URL}
	if directory := c.Archive.Local(); directory != "" && os.Geteuid() == 0 && !ownedByRoot(directory) {
		p.Skipped = "root would write there for another user; run doctor as the user of the nodes"
		return p
	}
	store, closeStore, err := archiving.Open(&c.Archive)
	if err == nil {
		err = errors.Join(archive.Probe(ctx, store), closeStore())
	}
	if err != nil {
		p.Problem = err.Error()
	}
	return p
}

// nodeInfo is what this node reports about itself in its session, for doctor.
func nodeInfo(c Config, keys *seal.Keyset) (doctor.Node, error) {
	known, err := postgres.KnownSchema()
	keyset := ""
	if keys != nil {
		keyset = keys.Fingerprint()
	}
	return doctor.Node{
		Version: c.Version, Schema: known.Latest, Zones: zoneRules(zoneSources()), Keyset: keyset,
		Connections: int(c.Connections) + int(c.API.Connections) + postgres.MemberConnections + postgres.ListenConnections,
		KeepHistory: c.KeepHistory.String(), LookAhead: c.LookAhead.String(), SessionTTL: c.SessionTTL.String(),
		WorkerTTL: c.WorkerTTL.String(), Commands: c.Command.Enabled,
		Slots: c.Slots, Files: maxFiles(), Memory: memoryLimit(os.DirFS("/")),
	}, err
}
