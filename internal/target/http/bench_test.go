package http_test

import (
	"context"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/http"
)

// BenchmarkDeliver compares the target with a plain http.Client that sends the same request to the same
// receiver. The receiver runs in this process, so all figures include its work. "cpu-ns/op" is the time of
// all cores for both sides.
func BenchmarkDeliver(b *testing.B) {
	srv := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	}))
	defer srv.Close()
	target := http.New(http.Options{Guard: allow(b, "127.0.0.0/8")})
	defer target.Close()
	a := attempt(fmt.Sprintf(`{"url": %q, "headers": {"Authorization": "Bearer 0123456789"}}`, srv.URL+"/hook"))
	deliver := func() bool { return target.Deliver(context.Background(), a).Kind == job.Succeeded }

	transport := &nethttp.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &nethttp.Client{Transport: transport}
	plain := func() bool { return plainly(client, srv.URL+"/hook", &a) }

	for _, c := range []struct {
		name string
		once func() bool
	}{{"plain", plain}, {"target", deliver}} {
		b.Run(c.name+"/one", func(b *testing.B) {
			measure(b, func() {
				for b.Loop() {
					if !c.once() {
						b.Fatal("not delivered")
					}
				}
			})
		})
		b.Run(c.name+"/many", func(b *testing.B) {
			b.SetParallelism(32)
			measure(b, func() {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if !c.once() {
							b.Error("not delivered")
						}
					}
				})
			})
		})
	}
}

// plainly does what the target does with an ordinary http.Client.
func plainly(client *nethttp.Client, url string, a *job.Attempt) bool {
	ctx, cancel := context.WithTimeout(context.Background(), a.Timeout)
	defer cancel()
	req, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodPost, url, strings.NewReader(a.Payload))
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer 0123456789")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Belfry/1")
	req.Header.Set("Idempotency-Key", job.FormatRunID(a.Key))
	req.Header.Set("Belfry-Run-Id", job.FormatRunID(a.Key))
	req.Header.Set("Belfry-Job-Id", job.FormatJobID(a.Key.Job))
	req.Header.Set("Belfry-Due-At", a.Key.DueAt.Format("2006-01-02T15:04:05.000000Z07:00"))
	req.Header.Set("Belfry-Attempt", fmt.Sprint(a.Number))
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == nethttp.StatusOK
}

// measure reports the CPU time of the process and the deliveries per second.
func measure(b *testing.B, work func()) {
	b.ReportAllocs()
	before := cpu(b)
	work()
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}

func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
