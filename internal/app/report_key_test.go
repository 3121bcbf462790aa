package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app/database"
	"github.com/belfry-dev/belfry/internal/app/reportkey"
)

// TestReportsAfterARotation: a node signs with the sealed key that is in use, and accepts tokens of the one before it.
// A node without the keyset does not start.
func TestReportsAfterARotation(t *testing.T) {
	t.Parallel()
	w := newWalk(t, func(pool *pgxpool.Pool) {
		at := database.At{URL: pool.Config().ConnString(), Keyset: testKeyset}
		_, err := reportkey.Rotate(t.Context(), at, access.ReportLife)
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), `UPDATE cluster_key SET use_at = now() - interval '1 s' WHERE sealed IS NOT NULL;
			UPDATE cluster_key SET use_at = now() - interval '1 h' WHERE secret IS NOT NULL;
			INSERT INTO cluster_key (name, secret, until) SELECT 'ended', secret, now() - interval '1 s' FROM cluster_key
			WHERE secret IS NOT NULL`)
		require.NoError(t, err)
	})
	n := w.tenant(access.DefaultNamespace)
	url, got := accepting(t)
	id := w.must(n.key, "POST", "/api/v1/jobs", fmt.Sprintf(`{
		"name":"later","schedule":"every 24h","report_timeout":"10m",
		"target":{"kind":"http","config":{"url":%q}}}`, url), "id")
	w.started(n, id)
	run := <-got
	w.eventually(`SELECT count(*) > 0 FROM run WHERE state = 2`)
	all, err := w.store.ReportKeys(t.Context())
	require.NoError(t, err)
	keys := all.After(0)
	require.Len(t, keys, 2)
	r, err := keys[:1].Parse(run.token)
	require.NoError(t, err, "the new key has signed it")
	for token, want := range map[string]int{
		run.token: http.StatusOK, keys[1:].Token(r): http.StatusOK, r.Token(make([]byte, 32)): http.StatusUnauthorized,
	} {
		answer := w.call(token, "POST", strings.TrimPrefix(run.url, w.base)+":heartbeat", "")
		require.Equal(t, want, answer.status, string(answer.body))
	}

	w.log.await(t, "old keys of run tokens deleted") // the loop that reads the keys again runs
	c := testConfig(w.pool.Config().ConnString())
	c.Scratch, c.Secrets.Keyset = true, ""
	err = Serve(t.Context(), c, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, access.ErrSealedReportKey)
}
