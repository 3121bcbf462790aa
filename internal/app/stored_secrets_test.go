package app

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app/brokers"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
)

// dump is all rows of all tables, as text.
func (w *walk) dump() (out string) {
	w.t.Helper()
	ctx := context.Background()
	rows, err := w.pool.Query(ctx, `
SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p')`)
	require.NoError(w.t, err)
	var tables []string
	for rows.Next() {
		var name string
		require.NoError(w.t, rows.Scan(&name))
		tables = append(tables, name)
	}
	require.NoError(w.t, rows.Err())
	require.Contains(w.t, tables, "secret")
	for _, table := range tables {
		var text string
		require.NoError(w.t,
			w.pool.QueryRow(ctx, `SELECT coalesce(string_agg(x::text, E'\n'), '') FROM `+table+` x`).Scan(&text))
		out += table + "\n" + text + "\n"
	}
	return out
}

// broker sets a broker, as the operator does.
func (w *walk) broker(b access.Broker) {
	w.t.Helper()
	_, err := brokers.Set(w.t.Context(), Database{URL: w.pool.Config().ConnString(), Keyset: testKeyset}, &b)
	require.NoError(w.t, err)
}

// TestStoredSecretsAppearNowhere (S15): what is stored for targets reaches them, and
// is in no dump of the database, log line, metric, answer of the API or audit entry,
// in no form, though the targets repeat all that they are sent; nor are the tokens
// that go out with runs.
func TestStoredSecretsAppearNowhere(t *testing.T) {
	t.Parallel()
	server, pool := pgtest.ServerURL(t)
	s, c := serveAPI(t, func(c *Config) { c.DatabaseURL = server })
	w := &walk{t: t, base: c.base, pool: pool, log: s.log}
	n := &tenant{id: access.DefaultNamespace, key: c.key}
	values := map[string]string{
		"token":           "canary21bearer",
		"old":             "canary22replaced",
		"key":             "canary23header",
		"password":        "canary24password",
		"webhook-signing": "canary25signing",
		"path":            "canary32path/x/canary33 path",
	}
	for name, value := range values {
		got := w.call(c.key, "PUT", "/api/v1/secrets/"+name, `{"value":"before-`+value+`"}`)
		require.Equal(t, http.StatusOK, got.status, string(got.body))
		w.must(c.key, "PUT", "/api/v1/secrets/"+name, `{"value":"`+value+`"}`, "name")
	}
	answers := w.call(c.key, "GET", "/api/v1/secrets", "").text
	require.Contains(t, answers, "webhook-signing")
	ended, waiting := 0, 0
	for _, status := range []int{200, 202, 400, 500} {
		for i, auth := range []string{
			`"auth":{"bearer":{"secret":"token"}}`, `"auth":{"basic":{"user":"me","password":{"secret":"password"}}}`,
			`"headers":{"x-key":{"secret":"key"}}`,
		} {
			id := w.must(c.key, "POST", "/api/v1/jobs", fmt.Sprintf(`{
				"name":"echo-%d-%d","schedule":"every 24h","retry":{"max_attempts":1},
				"target":{"kind":"http","config":{"url":"%s/hooks/${secret.path}/end?key=${secret.path}","keep_response":true,%s}}}`,
				status, i, echo(t, status), auth), "id")
			run := w.started(n, id)
			if status == http.StatusAccepted {
				waiting++
				w.eventually(`SELECT count(*) = $1 FROM run WHERE state = 2`, waiting)
			} else {
				ended++
				w.eventually(`SELECT count(*) = $1 FROM run_history`, ended)
			}
			answers += w.call(c.key, "GET", "/api/v1/runs/"+run, "").text
			answers += w.call(c.key, "GET", "/api/v1/jobs/"+id, "").text
		}
	}
	send := func(kind, config string) (answer string) {
		id := w.must(c.key, "POST", "/api/v1/jobs", fmt.Sprintf(`{
			"name":"broker-%d","schedule":"every 24h","retry":{"max_attempts":1},
			"target":{"kind":%q,"config":{
				"broker":%q,"headers":{"x":{"secret":"token"}},%s}}}`,
			ended, kind, kind, config), "id")
		run := w.started(n, id)
		ended++
		w.eventually(`SELECT count(*) = $1 FROM run_history`, ended)
		answer = w.call(c.key, "GET", "/api/v1/runs/"+run, "").text
		answers += answer + w.call(c.key, "GET", "/api/v1/jobs/"+id, "").text
		return answer
	}
	// Credentials of brokers are not for the namespace, and one of the brokers repeats them.
	credentials := access.BrokerCredentials{Password: "canary34broker"}
	config := access.BrokerConfig{Servers: []string{"127.0.0.1:1"}, User: "me"}
	for kind, where := range map[string]string{"kafka": `"topic":"t"`, "amqp": `"routing_key":"k"`} {
		w.broker(access.Broker{Name: kind, Kind: kind, Config: config, Credentials: credentials})
		require.Contains(t, send(kind, where), "refused the connection")
	}
	config.Servers = []string{brokertest.Echo(t, "Belfry-Run-Token", "x")}
	w.broker(access.Broker{Name: "nats", Kind: "nats", Config: config, Credentials: credentials})
	answers += w.call(c.key, "GET", "/api/v1/brokers", "").text
	answer := send("nats", `"subject":"s","wait_for":"report"`)
	for _, hidden := range []string{"Belfry-Run-Token: [hidden]", "x: [hidden]", `\"pass\":\"[hidden]\"`} {
		require.Contains(t, answer, hidden, "it was sent, and repeated")
	}
	require.Contains(t, answers, "[hidden]", "the targets did repeat what they were sent")
	for _, body := range []string{
		`{"value":{"x":"canary26"}}`, `{"value":"canary27","keep_previous_for":"canary28"}`, `{"valu":"canary29"}`,
		`{"value":"canary30`, `"canary31"`,
	} {
		got := w.call(c.key, "PUT", "/api/v1/secrets/token", body)
		require.GreaterOrEqual(t, got.status, 400)
		answers += got.text
	}
	answers += w.call(c.key, "GET", "/api/v1/audit", "").text
	_, metrics := get(t, c.base+"/metrics")
	dump := w.dump()
	require.NoError(t, s.end(t))

	forms := []string{"canary", "bfr_"} // and no token for a report, of runs that wait for theirs too
	values["broker"] = credentials.Password
	for _, value := range values {
		forms = append(forms, hex.EncodeToString([]byte(value)), base64.StdEncoding.EncodeToString([]byte(value)),
			base64.StdEncoding.EncodeToString([]byte("me:"+value)))
	}
	for name, text := range map[string]string{
		"the log": s.log.String(), "metrics": metrics, "answers": answers, "the database": dump,
	} {
		require.NotEmpty(t, text)
		for _, form := range forms {
			if at := strings.Index(text, form); at >= 0 {
				t.Errorf("%q is in %s: …%s…", form, name, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
}
