package main

// cluster answers first whether everything starts on time, then what keeps it from doing so.
func cluster() dashboard {
	return newDashboard("belfry-cluster", "Belfry / Cluster",
		"Does everything start on time, is anything missing, and does every partition have an owner?", nil,
		append(clusterState(), clusterTime()...)...)
}

func clusterState() []panel {
	return []panel{
		row("Now"),
		stat("On time", "Share of attempts that started within a second of their run time, over the time shown. "+
			"The objective is 99.9 %.", "percentunit", `
sum(increase(belfry_schedule_lag_seconds_bucket{job=~"$job", le=~"1([.]0)?"}[$__range]))
  / sum(increase(belfry_schedule_lag_seconds_count{job=~"$job"}[$__range]))`,
			levels("red", 0.99, "orange", 0.999, "green")).ui(""),
		stat("Oldest due run", "Age of the oldest run that is due, could start and has not. Paused queues do not count.", "s",
			`max(belfry_due_oldest_seconds{job=~"$job"})`, levels("green", 5.0, "orange", 60.0, "red")).ui("runs"),
		stat("Missing occurrences", "Occurrences that the schedule demands and the ledger does not have, as the audit found "+
			"over the time shown. One is a reason to act.", "short",
			`sum(increase(belfry_audit_findings_total{job=~"$job", kind="missing"}[$__range]))`,
			levels("green", 0.5, "red")).ui("audit"),
		stat("Partitions owned", "Of 256. Jobs of a partition without an owner do not run.", "short",
			`sum(belfry_partitions_owned{job=~"$job"})`, levels("red", 256.0, "green", 257.0, "orange")).ui("cluster"),
		stat("Live nodes", "Nodes with a session, as the nodes see the cluster.", "short",
			`max(belfry_sessions_live{job=~"$job"})`, levels("red", 1.0, "orange", 2.0, "green")).ui("cluster"),
		stat("Dead letters", "Runs that failed permanently and were neither redriven nor discarded.", "short",
			`sum(belfry_dead_letters{job=~"$job"})`, levels("green", 1.0, "orange")).ui("dead-letters"),
		stat("Clock in doubt", "Nodes that do not trust the clock of the database, and do no work.", "short",
			`sum(belfry_clock_in_doubt{job=~"$job"})`, levels("green", 1.0, "red")).ui("cluster"),
		stat("Broken schedules", "Schedules that cannot be planned: their jobs do not run.", "short",
			`max(belfry_cursors_broken{job=~"$job"})`, levels("green", 1.0, "red")).ui("jobs"),
		stat("Days of history ahead", "Days whose table of history exists. Without the table of its day, a run cannot end.",
			"short", `min(belfry_history_days_ahead{job=~"$job"})`, levels("red", 2.0, "orange", 7.0, "green")),
		stat("Versions", "Versions of Belfry that run at the same time. More than one is right only during an upgrade.",
			"short", `count(count by (version) (belfry_build_info{job=~"$job"}))`, levels("green", 2.0, "orange")).ui("cluster"),
		stat("Last audit", "How long ago the audit of the slowest node judged its last sample.", "s",
			`time() - min(belfry_audit_last_sample_timestamp_seconds{job=~"$job"} > 0)`,
			levels("green", 600.0, "red")).ui("audit"),
		stat("Alerts", "Alerts of the shipped rules that fire now.", "short",
			`count(ALERTS{alertstate="firing", alertname=~"Belfry.*"})`, levels("green", 1.0, "red")),
	}
}

func clusterTime() []panel {
	const lag = `sum by (le) (rate(belfry_schedule_lag_seconds_bucket{job=~"$job"}[$__rate_interval]))`
	return []panel{
		row("On time"),
		heatmap("Lateness", "How late attempts start after their run time, by bucket. Recorded when the attempt has ended.",
			`sum by (le) (increase(belfry_schedule_lag_seconds_bucket{job=~"$job"}[$__rate_interval]))`).half().ui("runs"),
		graph("Lateness, quantiles", "Half of the attempts start within p50, 99 of 100 within p99.", "s",
			query{"histogram_quantile(0.5, " + lag + ")", "p50"}, query{"histogram_quantile(0.99, " + lag + ")", "p99"},
		).half().ui("runs"),
		graph("Burn of the objective", "Share of late attempts, in multiples of the 0.1 % that the objective allows. 1 for "+
			"30 days uses up the budget. BelfryRunsLateFast pages at 14.4 and 6. From the recording rules.", "none",
			query{`belfry:late:ratio_rate5m / 0.001`, "5 min"},
			query{`belfry:late:ratio_rate1h / 0.001`, "1 h"},
			query{`belfry:late:ratio_rate6h / 0.001`, "6 h"},
			query{`belfry:late:ratio_rate3d / 0.001`, "3 d"}),
		graph("Oldest due run", "Age of the oldest due run that could start and has not, by namespace.", "s",
			query{`max by (namespace) (belfry_due_oldest_seconds{job=~"$job"})`, "{{namespace}}"}).ui("runs"),
		graph("Occurrences not run in time", "Due times skipped by reason, and missed runs that start late.", "short",
			query{
				`sum by (reason) (increase(belfry_due_times_skipped_total{job=~"$job"}[$__rate_interval]))`,
				"skipped: {{reason}}",
			},
			query{`sum(increase(belfry_runs_caught_up_total{job=~"$job"}[$__rate_interval]))`, "caught up"}).ui("runs"),
		row("Work"),
		graph("Runs", "Runs planned ahead, attempts claimed, outcomes written and retries, each per second.", "ops",
			query{`sum(rate(belfry_runs_planned_total{job=~"$job"}[$__rate_interval]))`, "planned"},
			query{`sum(rate(belfry_runs_claimed_total{job=~"$job"}[$__rate_interval]))`, "claimed"},
			query{`sum(rate(belfry_runs_completed_total{job=~"$job"}[$__rate_interval]))`, "completed"},
			query{`sum(rate(belfry_runs_retried_total{job=~"$job"}[$__rate_interval]))`, "retried"}).ui(""),
		graph("Ended runs", "Runs that entered history, by how they ended, per second.", "ops",
			query{`sum by (ended) (rate(belfry_runs_ended_total{job=~"$job"}[$__rate_interval]))`, "{{ended}}"}).
			stacked().ui("runs"),
		graph("Rescued, fenced and reconciled", "Attempts whose node or worker died, outcomes that came too late, and runs "+
			"that were in the wrong queue. Each should be 0 unless a node was restarted.", "short",
			query{`sum(increase(belfry_runs_rescued_total{job=~"$job"}[$__rate_interval]))`, "rescued"},
			query{`sum(increase(belfry_outcomes_fenced_total{job=~"$job"}[$__rate_interval]))`, "fenced"},
			query{`sum(increase(belfry_runs_reconciled_total{job=~"$job"}[$__rate_interval]))`, "reconciled"}),
		row("Nodes"),
		graph("Partitions", "Partitions by node. They add up to 256.", "short",
			query{`sum by (instance) (belfry_partitions_owned{job=~"$job"})`, "{{instance}}"}).stacked().ui("cluster"),
		graph("Session", "How long the session of each node lives if it is not renewed. At 0 the node does nothing.", "s",
			query{`min by (instance) (belfry_session_left_seconds{job=~"$job"})`, "{{instance}}"}).ui("cluster"),
		graph("Audit", "Occurrences that the audit judged, and what it found.", "short",
			query{`sum(increase(belfry_audit_checked_total{job=~"$job"}[$__rate_interval]))`, "checked"},
			query{`sum by (kind) (increase(belfry_audit_findings_total{job=~"$job"}[$__rate_interval]))`, "{{kind}}"}).
			ui("audit"),
	}
}
