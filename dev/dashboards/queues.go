package main

// queues shows each queue: what is due, what runs, how late it is, and the workers that it has.
func queues() dashboard {
	const q = `{job=~"$job", namespace=~"$namespace", queue=~"$queue"}`
	const failed = `{job=~"$job", namespace=~"$namespace", queue=~"$queue", ended="failed"}`
	by := func(expr string) query {
		return query{"sum by (namespace, queue) (" + expr + ")", "{{namespace}}/{{queue}}"}
	}
	quantile := func(metric, p string) query {
		return query{
			"histogram_quantile(" + p + ",\n  sum by (le, namespace, queue) (rate(" + metric + "_bucket" + q +
				"[$__rate_interval])))",
			"{{namespace}}/{{queue}}",
		}
	}
	state := func(name string) string {
		return `belfry_queue_runs{job=~"$job", namespace=~"$namespace", queue=~"$queue", state="` + name + `"}`
	}
	return newDashboard("belfry-queues", "Belfry / Queues & workers",
		"What is due and what runs in each queue, how late it is, and whether its workers suffice.",
		[]string{"namespace", "queue"},
		row("Runs"),
		graph("Due", "Runs that should have started. At most 15 s old.", "short", by(state("due"))).ui("queues"),
		graph("Oldest due run", "Age of the oldest due run that could start and has not. Paused queues do not count.", "s",
			query{"max by (namespace, queue) (belfry_due_oldest_seconds" + q + ")", "{{namespace}}/{{queue}}"}).ui("queues"),
		graph("Live runs by state", "Pending runs include those that are due and those that will be retried.", "short",
			query{"sum by (state) (belfry_queue_runs" + q + ")", "{{state}}"}).ui("runs"),
		graph("Running", "Runs that are executed now.", "short", by(state("running"))).stacked().ui("queues"),
		graph("Ended", "Runs that entered history, per second.", "ops",
			by("rate(belfry_runs_ended_total"+q+"[$__rate_interval])")).stacked().ui("runs"),
		graph("Failed permanently", "New dead letters.", "short",
			by("increase(belfry_runs_ended_total"+failed+"[$__rate_interval])")).ui("dead-letters"),
		row("Time"),
		graph("Lateness, p99", "99 of 100 attempts start within this time after their run time.", "s",
			quantile("belfry_schedule_lag_seconds", "0.99")),
		graph("Duration, p50", "Half of the attempts take less, from their start to their outcome.", "s",
			quantile("belfry_attempt_seconds", "0.5")),
		graph("Duration, p99", "99 of 100 attempts take less. Near the timeout of the jobs, attempts are cut off.", "s",
			quantile("belfry_attempt_seconds", "0.99")),
		row("Workers"),
		graph("Slots of workers", "Runs that workers can execute at the same time, as far as they report it.", "short",
			by("belfry_worker_slots"+q)).ui("queues"),
		graph("Slots in use", "Share of the workers' slots that execute a run. Near 1 for minutes: add workers.",
			"percentunit",
			query{
				"sum by (namespace, queue) (belfry_worker_slots_used" + q + ")\n" +
					"  / (sum by (namespace, queue) (belfry_worker_slots" + q + ") > 0)",
				"{{namespace}}/{{queue}}",
			}).share().ui("queues"),
		graph("Polls that wait", "Long polls of workers that wait for a run, by node. 0 while runs are due: no worker is "+
			"there.", "short",
			query{`sum by (instance) (belfry_workers_waiting{job=~"$job"})`, "{{instance}}"}).ui("queues"),
		graph("Work of workers", "Attempts that workers got and reports that were accepted, per second. Claimed above "+
			"reported for long: workers die or hang.", "ops",
			query{`sum(rate(belfry_worker_runs_claimed_total{job=~"$job"}[$__rate_interval]))`, "claimed"},
			query{`sum(rate(belfry_worker_reports_total{job=~"$job"}[$__rate_interval]))`, "reported"},
			query{`sum(rate(belfry_worker_reports_stale_total{job=~"$job"}[$__rate_interval]))`, "reported too late"}),
		graph("Statements for workers", "Scans for due runs and claims, per second. Each serves many polls.", "ops",
			query{`sum(rate(belfry_worker_looks_total{job=~"$job"}[$__rate_interval]))`, "scans"},
			query{`sum(rate(belfry_worker_claims_total{job=~"$job"}[$__rate_interval]))`, "claims"}),
		graph("Dead letters", "Runs that failed permanently and were neither redriven nor discarded.", "short",
			by("belfry_dead_letters"+q)).ui("dead-letters"),
	)
}
