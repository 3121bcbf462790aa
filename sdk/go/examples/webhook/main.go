// Command webhook receives runs of jobs with an http target and a secret.
//
//	WEBHOOK_SECRET=whsec_… go run ./examples/webhook
package main

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/belfry-dev/belfry/sdk/go/webhook"
)

func main() {
	address := os.Getenv("ADDRESS")
	if address == "" {
		address = "127.0.0.1:8080"
	}
	server := &http.Server{
		Addr: address, ReadHeaderTimeout: 5 * time.Second,
		Handler: webhook.Verify(http.HandlerFunc(receive), os.Getenv("WEBHOOK_SECRET")),
	}
	slog.Error("stopped", "error", server.ListenAndServe())
	os.Exit(1)
}

func receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // Verify has limited its size
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	slog.Info("run", "key", r.Header.Get("Idempotency-Key"), "bytes", len(body))
	w.WriteHeader(http.StatusNoContent)
}
