package http_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target/http"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	target := newTarget(t, http.Options{})
	const ok = `"url": "https://example.com"`
	many := map[string]string{}
	for n := range 65 {
		many[fmt.Sprintf("X-%d", n)] = "v"
	}
	tooMany, err := json.Marshal(many)
	require.NoError(t, err)
	headers := func(text string) string { return `{` + ok + `, "headers": ` + text + `}` }
	for config, want := range map[string]string{
		``:           "target.config: it is not a JSON object",
		`null`:       "target.config: it is not a JSON object",
		`{} {}`:      "target.config: it is not a JSON object",
		`{}`:         "target.config.url: it is missing",
		`{"url": 1}`: "target.config.url: it is missing or not a string",
		`{"URL": "https://x"}`: "target.config.URL: there is no such setting; " +
			"use url, method, headers, body, auth, signing, client_certificate and keep_response\n" +
			"target.config.url: it is missing",
		`{"url": "example.com"}`:                "target.config.url: only http and https",
		`{"url": "file:///etc/passwd"}`:         "target.config.url: only http and https",
		`{"url": "http:opaque"}`:                "target.config.url: it names no host",
		`{"url": "http://:80/x"}`:               "target.config.url: it names no host",
		`{"url": "http://u:pw@x"}`:              "target.config.url: it has a user or password; store the password",
		`{"url": "http://x:65536"}`:             "target.config.url: its port",
		`{"url": "http://x:0"}`:                 "target.config.url: its port",
		`{"url": "http://ap\u0130.example/"}`:   "target.config.url: its host has characters other than ASCII, or a zone",
		`{"url": "http://\u212aafka/"}`:         "target.config.url: its host has",
		`{"url": "http://a\u3002example/"}`:     "target.config.url: its host has",
		`{"url": "http://%C4%B0.example/"}`:     "target.config.url: its host has",
		`{"url": "http://[fe80::1%25eth0]/"}`:   "target.config.url: its host has",
		`{"url": "http://[fe80::1%25.a.org]/"}`: "target.config.url: its host has",
		`{"url": "http://x/\u0000"}`:            "target.config.url: it is not a URL",
		`{"url": "http://x/%zz"}`:               "target.config.url: it is not a URL",

		`{"url": "http://x/` + strings.Repeat("a", 2048) + `"}`: "target.config.url: 2057 bytes; at most 2048",

		`{` + ok + `, "method": "post"}`: "target.config.method: it is not a supported method; " +
			"use one of POST",
		`{` + ok + `, "method": "CONNECT"}`:          "target.config.method: ",
		`{` + ok + `, "method": "GET", "body": "1"}`: "target.config.body: GET has no body; use POST",
		`{` + ok + `, "body": "a=1"}`: "target.config.body: it is not JSON, and nothing says what it is; " +
			"add a header Content-Type",
		headers(`["a"]`):                      "target.config.headers: it is not an object of strings",
		headers(string(tooMany)):              "target.config.headers: 65 headers; at most 64",
		headers(`{"": "v"}`):                  "target.config.headers.: it is not the name of a header",
		headers(`{"a b": "v"}`):               "target.config.headers.a b: it is not the name",
		headers(`{"a\r\nb": "v"}`):            "target.config.headers.a  b: it is not the name",
		headers(`{"a": "v\r\nHost: x"}`):      "target.config.headers.a: its value has a line break",
		headers(`{"a": "\u0000"}`):            "target.config.headers.a: its value has a line break or another control",
		headers(`{"host": "v"}`):              "target.config.headers.host: it comes from the url",
		headers(`{"content-length": "1"}`):    "target.config.headers.content-length: it comes from the body",
		headers(`{"Transfer-Encoding": "x"}`): "target.config.headers.Transfer-Encoding: it belongs to the connection",
		headers(`{"connection": "x"}`):        "target.config.headers.connection: it belongs to the connection",
		headers(`{"belfry-run-id": "x"}`):     "target.config.headers.belfry-run-id: Belfry sets it itself; remove it",
		headers(`{"idempotency-key": "x"}`):   "target.config.headers.idempotency-key: Belfry sets it itself",
		headers(`{"X-A": "1", "x-a": "2"}`):   "target.config.headers.x-a: it is there twice",
	} {
		err := target.Check(json.RawMessage(config))
		require.Error(t, err, config)
		require.Contains(t, err.Error(), want, config)
		require.NotContains(t, err.Error(), "pw", "values may be secret")
		for _, p := range problem.All(err) {
			require.NotEmpty(t, p.Fix, config)
		}
	}
	for _, config := range []string{
		`{` + ok + `}`,
		`{"url": "http://[::1]:8080/x?y#z", "method": "DELETE", "headers": null, "body": null}`,
		`{` + ok + `, "headers": {"Authorization": "Bearer x", "X-Idempotency-Key": "mine"}, ` +
			`"body": "plain", "method": "PATCH"}`,
	} {
		if strings.Contains(config, "plain") {
			config = strings.Replace(config, `"headers": {`, `"headers": {"content-type": "text/plain", `, 1)
		}
		require.NoError(t, target.Check(json.RawMessage(config)), config)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(`{"url": "https://example.com", "method": "PUT", "headers": {"A": "b"}, "body": "x"}`)
	f.Add(`{"url": "http://[::1%25lo]:1/"}`)
	target := http.New(http.Options{})
	f.Fuzz(func(t *testing.T, config string) {
		err := target.Check(json.RawMessage(config))
		if err != nil && len(problem.All(err)) == 0 {
			t.Errorf("an error without a problem: %v", err)
		}
	})
}
