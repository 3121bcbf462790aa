// Command probe sends a message (a row, an object) through each running development
// service and reads it back: an open port proves little. dev/services status runs it.
//
// Standard input has one line for each service: name, state, url, version and log folder,
// separated by tabs. The exit code is 1 when a started service, or a named one, does not answer.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

const checkTimeout = 10 * time.Second

// check sends a value that was made for this call through a service, and succeeds only if it comes back.
type check struct {
	what string
	run  func(ctx context.Context, url string) error
}

var checks = map[string]check{
	"postgres":     {"wrote and read a row", checkPostgres},
	"postgres-ram": {"wrote and read a row", checkPostgres},
	"postgres18":   {"wrote and read a row", checkPostgres},
	"postgres-ha":  {"committed on the primary, read on both standbys", checkPostgresHA},
	"pgbouncer":    {"wrote and read a row in transaction mode", checkPgBouncer},
	"nats":         {"published to JetStream and consumed", checkNATS},
	"rabbitmq":     {"published with confirm and consumed", checkRabbitMQ},
	"kafka":        {"produced with acks=all and consumed", checkKafka},
	"toxiproxy":    {"passed bytes through a new proxy", checkToxiproxy},
	"s3":           {"put and got an object", checkS3},
	"podman":       {"answered Docker's API", checkPodman},
}

type service struct {
	Name      string  `json:"name"`
	State     string  `json:"state"` // running, unhealthy, stopped, not installed
	URL       string  `json:"url"`
	Version   string  `json:"version"`
	Logs      string  `json:"logs"`
	LatencyMS float64 `json:"latency_ms,omitempty"`
	Check     string  `json:"check,omitempty"`
	Error     string  `json:"error,omitempty"`
}

func main() {
	output := flag.String("o", "table", "output: table or json")
	named := flag.Bool("named", false, "the services were named: one that is stopped is a failure")
	flag.Parse()

	services, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(2)
	}
	var wg sync.WaitGroup
	for _, s := range services {
		wg.Go(s.probe)
	}
	wg.Wait()

	if *output == "json" {
		err = printJSON(os.Stdout, services)
	} else {
		err = printTable(os.Stdout, services)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(2)
	}
	for _, s := range services {
		if s.State == "unhealthy" || *named && s.State != "running" {
			os.Exit(1)
		}
	}
}

func read(r io.Reader) ([]*service, error) {
	var services []*service
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		if len(f) != 5 {
			return nil, fmt.Errorf("want 5 fields, got %q", lines.Text())
		}
		services = append(services, &service{Name: f[0], State: f[1], URL: f[2], Version: f[3], Logs: f[4]})
	}
	return services, lines.Err()
}

// probe fills in the result. It does not wait for a check that ignores its context.
func (s *service) probe() {
	switch s.State {
	case "running":
	case "crashed":
		s.State, s.Error = "unhealthy", "it was started, but its process is gone; see "+s.Logs+"/*.log"
		return
	default:
		s.State = strings.ReplaceAll(s.State, "-", " ")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- checks[s.Name].run(ctx, s.URL) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = errors.New("no answer within " + checkTimeout.String())
	}
	s.LatencyMS = float64(time.Since(began).Microseconds()) / 1000
	if err != nil {
		s.State, s.Error = "unhealthy", err.Error()
		return
	}
	s.Check = checks[s.Name].what
}

func printJSON(w io.Writer, services []*service) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(services)
}

func printTable(w io.Writer, services []*service) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SERVICE\tSTATE\tVERSION\tADDRESS\tLATENCY\tROUND TRIP")
	for _, s := range services {
		latency := "-"
		if s.LatencyMS > 0 {
			latency = fmt.Sprintf("%.1f ms", s.LatencyMS)
		}
		result := s.Check
		if s.Error != "" {
			result = "FAILED, see below"
		}
		address, _, _ := strings.Cut(s.URL, "?") // the whole url is what `dev/services env` is for
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.State, s.Version, address, latency, result)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, s := range services {
		if s.Error != "" {
			fmt.Fprintf(w, "\n%s: %s\n", s.Name, s.Error)
		}
	}
	return nil
}

// token returns a value for one round trip, so that an earlier value cannot be mistaken for it.
func token() string { return "belfry_probe_" + strings.ToLower(rand.Text()) }
