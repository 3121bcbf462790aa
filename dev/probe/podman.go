package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
)

// checkPodman makes the first request of Docker's clients. The tests of the command target start containers.
func checkPodman(ctx context.Context, url string) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(url, "unix://"))
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podman/_ping", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK || response.Header.Get("Api-Version") == "" {
		return errors.New("it answers, but not as Docker does")
	}
	return nil
}
