package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
)

// checkPodman asks for what Docker's clients ask first. Containers are started by the tests of the target command.
func checkPodman(ctx context.Context, url string) error {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(url, "unix://"))
	}}}
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
