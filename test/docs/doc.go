// Package docs checks every fenced code block of the documentation. Each block is executed or validated by
// its language; a block that no checker knows fails the test.
//
//	sh        executed with bash against a real node; belfry is this program, make and go are checked only;
//	          "sh install", "sh image", "sh release", "sh compose-…" and "sh kubernetes" are executed by test/deploy, on a
//	          machine or a cluster of their own
//	output    compared with what the sh block before it printed
//	console   commands after "$ " are parsed; what follows is their output
//	json      jobs, targets and schedules are sent to the API; responses are compared with its description
//	yaml      jobs are sent to the API, configuration is loaded; "yaml helm" has values that the chart lists
//	sql       executed on the real schema; "sql fails=CODE" must fail with this SQLSTATE, "sql returns=VALUE"
//	          must return this value, "sql setup" is repeated before the blocks after it
//	go        compiled with the Go SDK
//	ini       settings of PostgreSQL, PgBouncer and systemd; "ini pgbackrest" and "sh backup" are used by TestRestore of
//	          test/cluster
//	text      diagrams and samples, not checked; "text like=internal/why": messages that this package prints
//	mermaid   generated diagrams
package docs
