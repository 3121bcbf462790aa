package main

// nodes shows the database as each node sees it, the API, and the process.
func nodes() dashboard {
	return newDashboard("belfry-node", "Belfry / Database & node",
		"The database as each node sees it, the API, and the processes.", []string{"instance"},
		append(nodeDatabase(), nodeProcess()...)...)
}

// n selects the nodes to show.
const n = `{job=~"$job", instance=~"$instance"}`

// byNode is a query with one series for each node.
func byNode(expr string) query { return query{"sum by (instance) (" + expr + ")", "{{instance}}"} }

// process is a metric that every Go program exports, and not only nodes: see ofNodes.
func process(metric string) string { return metric + n }

// ofNodes keeps only the processes that are nodes.
const ofNodes = "\n  and on (job, instance) belfry_build_info" + n

func nodeDatabase() []panel {
	return []panel{
		row("Database"),
		graph("Connections in use", "Busy connections as a share of those that the node may open.", "percentunit",
			query{`
sum by (instance) (belfry_database_connections{job=~"$job", instance=~"$instance", state="busy"})
  / sum by (instance) (belfry_database_connections_max` + n + `)`, "{{instance}}"}).share(),
		graph("Open connections", "Busy and idle ones of all nodes.", "short",
			query{"sum by (state) (belfry_database_connections" + n + ")", "{{state}}"}).stacked(),
		graph("Waiting for a connection", "Seconds that statements wait for a connection, per second. Above 0.1: raise "+
			"connections, or the database is slow.", "s",
			byNode("rate(belfry_database_wait_seconds_total"+n+"[$__rate_interval])")),
		graph("Waits", "Statements that waited for a connection, per second.", "ops",
			byNode("rate(belfry_database_waits_total"+n+"[$__rate_interval])")),
		graph("Failed rounds", "Rounds of a loop that failed and were retried. The log says why.", "short",
			query{"sum by (loop) (increase(belfry_loop_failures_total" + n + "[$__rate_interval]))", "{{loop}}"}),
		graph("Failovers", "Failovers that nodes noticed, by what happened to acknowledged writes.", "short",
			query{"sum by (writes) (increase(belfry_database_failovers_total" + n + "[$__rate_interval]))", "{{writes}}"}).
			ui("cluster"),
		graph("Session", "How long the session lives if it is not renewed. At 0 the node does nothing.", "s",
			query{"min by (instance) (belfry_session_left_seconds" + n + ")", "{{instance}}"}).ui("cluster"),
		graph("Clock in doubt", "1 while the node does not trust the clock of the database and does no work.", "none",
			query{"max by (instance) (belfry_clock_in_doubt" + n + ")", "{{instance}}"}).ui("cluster"),
		graph("Runs in the timing wheel", "Runs that are kept in memory until they are due.", "short",
			byNode("belfry_runs_planned"+n)).stacked(),
		row("API"),
		graph("Requests", "Requests that were answered, by class of status, per second.", "ops",
			query{"sum by (status) (rate(belfry_api_requests_total" + n + "[$__rate_interval]))", "{{status}}"}).stacked(),
		graph("Duration, p99", "99 of 100 requests take less, by operation. Long polls of workers take up to 25 s.", "s",
			query{
				"histogram_quantile(0.99,\n  sum by (le, operation) (rate(belfry_api_request_seconds_bucket" + n +
					"[$__rate_interval])))",
				"{{operation}}",
			}),
		graph("Errors", "Share of the requests that failed with a 5xx status. The objective is below 0.1 %.", "percentunit",
			query{`
(sum(rate(belfry_api_requests_total{job=~"$job", instance=~"$instance", status="5xx"}[$__rate_interval])) or vector(0))
  / sum(rate(belfry_api_requests_total` + n + `[$__rate_interval]))`, "5xx"}).share(),
	}
}

func nodeProcess() []panel {
	rate := func(metric string) string { return "rate(" + process(metric) + "[$__rate_interval])" }
	return []panel{
		row("Process"),
		graph("CPU", "Cores in use.", "short", byNode(rate("process_cpu_seconds_total")+ofNodes)),
		graph("Memory", "Resident memory.", "bytes", byNode(process("process_resident_memory_bytes")+ofNodes)),
		graph("Goroutines", "Each attempt, long poll and connection has some. Steady growth without load is a leak.", "short",
			byNode(process("go_goroutines")+ofNodes)),
		graph("Slots", "Attempts that the node may deliver at the same time, and how many slots are free.", "short",
			query{"sum by (instance) (belfry_slots" + n + ")", "{{instance}} all"},
			query{"sum by (instance) (belfry_slots_free" + n + ")", "{{instance}} free"}),
		graph("Open files", "Share of the open files that the process may have.", "percentunit",
			byNode(process("process_open_fds")+" / "+process("process_max_fds")+ofNodes)).share(),
		graph("Uptime", "Time since the process started.", "s",
			query{"time() - max by (instance) (" + process("process_start_time_seconds") + ofNodes + ")", "{{instance}}"}),
		graph("Garbage collection", "Seconds in which the process was stopped by the garbage collector, per second.", "s",
			byNode(rate("go_gc_duration_seconds_sum")+ofNodes)),
		graph("Spans", "Spans of traces that the collector accepted, and those that were dropped, per second.", "ops",
			query{"sum(rate(belfry_spans_exported_total" + n + "[$__rate_interval]))", "exported"},
			query{"sum(rate(belfry_spans_dropped_total" + n + "[$__rate_interval]))", "dropped"}),
		graph("Certificate", "Time until the TLS certificate of the node expires. Nodes without TLS have none.", "s",
			query{"min by (instance) (belfry_certificate_left_seconds" + n + ")", "{{instance}}"}),
	}
}
