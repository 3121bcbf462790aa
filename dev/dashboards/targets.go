package main

// targets shows the outcome of attempts: what targets answer, how long they take, and what is deferred for them.
func targets() dashboard {
	const q = `{job=~"$job", namespace=~"$namespace", queue=~"$queue"}`
	const failed = `{job=~"$job", namespace=~"$namespace", queue=~"$queue", ended="failed"}`
	const accepted = `{job=~"$job", namespace=~"$namespace", queue=~"$queue", state="accepted"}`
	return newDashboard("belfry-targets", "Belfry / Targets",
		"The outcome of attempts, their durations, and what waits because a target is busy.",
		[]string{"namespace", "queue"},
		row("Outcomes, of all queues"),
		graph("Attempts", "Attempts that came to an outcome, per second.", "ops",
			query{`sum by (outcome) (rate(belfry_attempts_total{job=~"$job"}[$__rate_interval]))`, "{{outcome}}"}).
			stacked().ui("runs"),
		graph("Failed attempts", "Share of the attempts with an answer that failed. Most of them are retried.", "percentunit",
			query{
				`
sum(rate(belfry_attempts_total{job=~"$job", outcome="failed"}[$__rate_interval]))
  / sum(rate(belfry_attempts_total{job=~"$job", outcome=~"succeeded|failed|accepted"}[$__rate_interval]))`,
				"failed",
			}).share().ui("runs"),
		graph("Deferred", "Attempts that were not delivered, because the host or the command slots of the node were busy, "+
			"per second and node. A run is counted once for each deferral.", "ops",
			query{
				`sum by (instance) (rate(belfry_attempts_total{job=~"$job", outcome="deferred"}[$__rate_interval]))`,
				"{{instance}}",
			}),
		graph("Retries", "Outcomes that led to another attempt, per second.", "ops",
			query{`sum(rate(belfry_runs_retried_total{job=~"$job"}[$__rate_interval]))`, "retried"}),
		graph("Slots in use", "Share of a node's slots that deliver an attempt. Near 1 for minutes: targets are slow, or slots "+
			"are few.",
			"percentunit",
			query{
				`
1 - sum by (instance) (belfry_slots_free{job=~"$job"}) / sum by (instance) (belfry_slots{job=~"$job"})`,
				"{{instance}}",
			}).share(),
		graph("Outcomes that came too late", "Another attempt had taken over. Its target was called twice.", "short",
			query{`sum by (instance) (increase(belfry_outcomes_fenced_total{job=~"$job"}[$__rate_interval]))`, "{{instance}}"}),
		row("By queue"),
		heatmap("Duration of attempts", "How long attempts take from their start to their outcome, by bucket.",
			"sum by (le) (increase(belfry_attempt_seconds_bucket"+q+"[$__rate_interval]))").half().ui("runs"),
		graph("Mean duration", "Mean time from the start of an attempt to its outcome.", "s",
			query{
				"sum by (namespace, queue) (rate(belfry_attempt_seconds_sum" + q + "[$__rate_interval]))\n" +
					"  / sum by (namespace, queue) (rate(belfry_attempt_seconds_count" + q + "[$__rate_interval]))",
				"{{namespace}}/{{queue}}",
			}).half(),
		graph("Waiting for a report", "Runs that their target has accepted and not reported on.", "short",
			query{
				"sum by (namespace, queue) (belfry_queue_runs" + accepted + ")",
				"{{namespace}}/{{queue}}",
			}).ui("runs"),
		graph("Failed permanently, by reason", "New dead letters. The reason is that of the ledger.", "short",
			query{"sum by (reason) (increase(belfry_runs_ended_total" + failed + "[$__rate_interval]))", "{{reason}}"}).
			ui("dead-letters"),
		graph("Failed permanently, share", "Share of the runs that executed and failed permanently.", "percentunit",
			query{
				"sum by (namespace, queue) (rate(belfry_runs_ended_total" + failed + "[$__rate_interval]))\n" +
					`  / sum by (namespace, queue) (rate(belfry_runs_ended_total{job=~"$job", namespace=~"$namespace", ` +
					`queue=~"$queue", ended=~"succeeded|failed"}[$__rate_interval]))`,
				"{{namespace}}/{{queue}}",
			}).share().ui("dead-letters"),
	)
}
