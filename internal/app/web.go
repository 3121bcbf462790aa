package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/server"
	"github.com/belfry-dev/belfry/internal/server/oidc"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/share"
	"github.com/belfry-dev/belfry/internal/store"
	"github.com/belfry-dev/belfry/internal/target"
)

// answerTime is how long stop waits for requests in progress.
const answerTime = 5 * time.Second

// web serves HTTP: the UI, health and metrics from start to end, the API while the node works.
type web struct {
	addresses []string // of the API, and of metrics if they have their own
	servers   []*http.Server
	api       atomic.Pointer[http.Handler]
}

// listen starts to serve the UI, health and metrics. The API answers "unavailable" until open.
func listen(ctx context.Context, c Config, log *slog.Logger, m *metrics, h *health) (w *web, err error) {
	w = &web{}
	w.setAPI(rest.Unavailable("the node waits for its database"))
	public, private := http.NewServeMux(), http.NewServeMux()
	public.HandleFunc("/", w.serveAPI)
	mountUI(public, c.UI, http.HandlerFunc(w.serveAPI))
	h.handle(public)
	scrape := m.handler()
	if c.MetricsListen == "" && config.Loopback(c.Listen) {
		private, scrape = public, rest.ForThisMachine(scrape)
	}
	private.Handle("GET /metrics", scrape)
	var secret *tls.Config
	if c.TLSCert != "" {
		cert, err := readCertificate(c.TLSCert, c.TLSKey, log)
		if err != nil {
			return nil, err
		}
		m.certificate.of.Store(cert)
		secret = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: cert.get}
	}
	if err = w.serve(ctx, c.Listen, public, log, secret); err != nil {
		return nil, fmt.Errorf("listen for the API, health and metrics (another address: --listen): %w", err)
	}
	if c.MetricsListen != "" {
		if err := w.serve(ctx, c.MetricsListen, private, log, nil); err != nil {
			w.stop(ctx)
			return nil, fmt.Errorf("listen for metrics (another address: --metrics-listen): %w", err)
		}
	}
	return w, nil
}

// serve serves an address until stop. Without a TLS config it serves plain HTTP.
func (w *web) serve(
	ctx context.Context, address string, h http.Handler, log *slog.Logger, secret *tls.Config,
) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	s := rest.HTTP(h)
	s.TLSConfig = secret
	// The HTTP server logs only broken connections of clients.
	s.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	w.servers = append(w.servers, s)
	limited := share.LimitByFiles(listener, maxFiles(), log)
	go func() {
		if secret != nil {
			_ = s.ServeTLS(limited, "", "") // it returns when the server is stopped
			return
		}
		_ = s.Serve(limited)
	}()
	w.addresses = append(w.addresses, listener.Addr().String())
	return nil
}

// url returns the URL of the API as this node knows it; a proxy may have another.
func (w *web) url(c Config) string {
	if c.TLSCert != "" {
		return "https://" + w.addresses[0]
	}
	return "http://" + w.addresses[0]
}

func (w *web) serveAPI(out http.ResponseWriter, r *http.Request) { (*w.api.Load()).ServeHTTP(out, r) }

func (w *web) setAPI(h http.Handler) { w.api.Store(&h) }

// open serves the API until ctx ends. Then another node gets new requests, and those in progress continue.
func (w *web) open(ctx context.Context, api *server.Server) {
	w.setAPI(api.Handler())
	context.AfterFunc(ctx, func() {
		w.setAPI(rest.Unavailable("this node is stopping; another one answers"))
	})
}

// stop waits up to answerTime for requests in progress and closes all connections. It may be called twice.
func (w *web) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	for _, s := range w.servers {
		if s.Shutdown(ctx) != nil {
			_ = s.Close() // answerTime has passed
		}
	}
}

// apiStore is the store of the API. Almost every call is one of postgres.API, under row-level security.
// Two kinds of calls use postgres.Engine: setting limits, which counts live runs, and reports, which
// identify a run by its token.
type apiStore struct {
	*postgres.API
	*postgres.Admin
	*postgres.Engine
	*postgres.Views
	*postgres.Operations
}

// newAPI creates the API. It has its own database connections, so that the engine never waits for users.
func (n *node) newAPI(db *postgres.DB) *server.Server {
	reports := db.Engine()
	if n.store != nil { // nil: the API is only described
		reports.Finish().PauseBy(n.store.Finish())
	}
	store := apiStore{db.API(), db.Admin(), reports, db.Views(), db.Operations()}
	checks := target.Checks{Targets: n.targets, Bindings: store}
	redactor := target.Redactor{Targets: n.targets, Secrets: n.secrets, Reported: store.ReportedTarget}
	options := server.Options{
		Keys: store, Jobs: store, Verbs: store, Versions: store, Ledger: store, Load: store,
		Stories: store, DeadLetters: store, Operations: store, Logins: store, LoginCode: n.config.LoginCode,
		OIDC:  n.config.provider(),
		Views: store, Overview: store, Live: store,
		Queues: store, Workers: n.pull, Secrets: store, Reports: store, Redact: redactor.Redact, ReportKeys: n.reportKeys, Cluster: store,
		Audit: store, Quotas: store, Brokers: store, Refused: n.refusals.Note, Interrupt: n.engine.Interrupt, Classify: classify,
		Check: checks.New, Clear: checks.Clear,
		Version: n.config.Version, TraceURL: n.config.Tracing.URL, Log: n.log, Observe: n.metrics,
		Limits: rest.Limits{
			KeyRate: n.config.API.KeyRate, KeyBurst: n.config.API.KeyBurst, Requests: n.config.API.Requests,
		},
	}
	if n.config.tracer != nil {
		options.Sampled = n.config.tracer.Sampled
	}
	return server.New(options)
}

// provider returns the identity provider of the configuration; nil: there is none.
func (c *Config) provider() *server.OIDC {
	if c.OIDC.Issuer == "" {
		return nil
	}
	grants, err := access.ParseGrants(c.OIDC.Roles)
	if err != nil {
		grants = nil // config has rejected it; no login works
	}
	return &server.OIDC{Grants: grants, Config: oidc.Config{
		Issuer: c.OIDC.Issuer, ClientID: c.OIDC.ClientID, ClientSecret: c.OIDC.ClientSecret,
		Scopes: strings.Fields(c.OIDC.Scopes), NameClaim: c.OIDC.NameClaim, GroupsClaim: c.OIDC.GroupsClaim,
	}}
}

// classify returns what an error of the store means to a client.
func classify(err error) rest.ErrorClass {
	switch {
	case store.TimedOut(err):
		return rest.Slow
	case store.MayPass(err), store.Lost(err): // lost: the error of several hosts has the code of one
		return rest.Unreachable
	case store.ClockInDoubt(err):
		return rest.ClockInDoubt
	case store.BadText(err):
		return rest.BadText
	default:
		return rest.Unknown
	}
}
