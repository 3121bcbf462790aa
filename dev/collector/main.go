// Command collector accepts spans by OTLP over HTTP, and writes how many it got to its output when its input ends. Its
// first lines are its URL, and a URL whose requests get no answer. It is for measurements.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
)

const maxBody = 64 << 20

var spans atomic.Int64

func main() {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = fmt.Fprintf(os.Stdout, "http://%[1]s/v1/traces\nhttp://%[1]s/silent\n", listener.Addr())
	paths := http.NewServeMux()
	paths.HandleFunc("/v1/traces", receive)
	paths.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server := &http.Server{Handler: paths, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
	_, _ = fmt.Fprintln(os.Stdout, spans.Load())
}

func receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		var unpacked *gzip.Reader
		if unpacked, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(io.LimitReader(unpacked, maxBody))
		}
	}
	var in collectorpb.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(body, &in) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, resource := range in.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			spans.Add(int64(len(scope.Spans)))
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}
