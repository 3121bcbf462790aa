package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// addressed dials from the i-th address of this machine.
func addressed(i int) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 3, byte(i/250), byte(i%250+1))}}
}

// dial connects to one of the nodes, from one of 200 addresses.
func (a *attack) dial(ctx context.Context, i int) (net.Conn, error) {
	return addressed(i%200).DialContext(ctx, "tcp", a.Nodes[i%len(a.Nodes)])
}

// idle opens connections that say nothing, and opens those again that a node closes.
func (a *attack) idle(ctx context.Context) error {
	a.repeat(ctx, func(ctx context.Context, i int) {
		c, err := a.dial(ctx, i)
		if err != nil {
			return
		}
		defer a.hold()()
		defer func() { _ = c.Close() }()
		_, _ = c.Read(make([]byte, 1))
	})
	return nil
}

// bodies sends bodies, one byte after the other.
func (a *attack) bodies(ctx context.Context) error {
	a.repeat(ctx, func(ctx context.Context, i int) {
		c, err := a.dial(ctx, i)
		if err != nil {
			return
		}
		defer a.hold()()
		defer func() { _ = c.Close() }()
		_, err = fmt.Fprintf(c, "POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n", a.Keys[i%len(a.Keys)])
		for err == nil && ctx.Err() == nil {
			if _, err = fmt.Fprint(c, " "); err == nil {
				a.done.Add(1)
			}
			<-time.After(200 * time.Millisecond)
		}
	})
	return nil
}

// clients are as many as there are keys, each with an address of its own.
func (a *attack) clients() (all []*http.Client) {
	for i := range a.Keys {
		all = append(all, &http.Client{Timeout: time.Minute, Transport: &http.Transport{
			DialContext: addressed(i).DialContext, MaxIdleConnsPerHost: 1000,
		}})
	}
	return all
}

// requests calls the API, which refuses each call, because the queues do not exist.
func (a *attack) requests(ctx context.Context) error {
	clients := a.clients()
	a.repeat(ctx, func(ctx context.Context, i int) {
		k := i % len(a.Keys)
		path := fmt.Sprintf("http://%s/api/v1/queues/unknown-%d/sessions", a.Nodes[i%len(a.Nodes)], k)
		if status, _ := post(ctx, clients[k], a.Keys[k], path, `{"name":"w"}`); status/100 == 4 {
			a.refused.Add(1)
		}
	})
	return nil
}

// polls opens sessions of workers and waits for runs, of which there are none.
func (a *attack) polls(ctx context.Context) error {
	clients := a.clients()
	sessions := make([]string, a.First+a.Count) // their runs, of which there are none, need no heartbeat
	a.repeat(ctx, func(ctx context.Context, i int) {
		k := i % len(a.Keys)
		path := fmt.Sprintf("http://%s/api/v1/queues/q%d/sessions", a.Nodes[i%len(a.Nodes)], k)
		if sessions[i] == "" {
			var session struct{ ID string }
			status, text := post(ctx, clients[k], a.Keys[k], path, `{"name":"w"}`)
			if status/100 != 2 || json.Unmarshal(text, &session) != nil {
				a.refused.Add(1)
				return
			}
			sessions[i] = session.ID
		}
		end := a.hold()
		status, text := post(ctx, clients[k], a.Keys[k], path+"/"+sessions[i]+":claim",
			`{"handlers":["h"],"max":1,"wait_ms":20000}`)
		end()
		if status/100 == 2 {
			a.done.Add(1)
		} else if strings.Contains(string(text), "session_expired") {
			sessions[i] = ""
		}
	})
	return nil
}

// post returns the status and the text of an answer, and 0 if there was none.
func post(ctx context.Context, client *http.Client, key, url, body string) (status int, text []byte) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ = io.ReadAll(answer.Body)
	return answer.StatusCode, text
}
