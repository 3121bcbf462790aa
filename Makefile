# `make` prints this help. Each target with a ## is listed, under the ##@ above it.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help
TOOLS := $(CURDIR)/.tools
FUZZTIME ?= 5m
FAULT ?= Kill9
KILLS ?= 200
SECONDS ?= 60
JOBS ?= 50
CRASHES ?= 5
TRIES ?= 10000
HANDOVERS ?= 300
FAILOVERS ?= 50
BULK ?= 20
RUNS ?= 100000
JOBS_LISTED ?= 1000000

# Databases for one command: in memory for tests, on disk with fsync for measurements. `using` is for any services.
using = dev/services up $(1) && eval "$$(dev/services env $(1))" &&
RAM := $(call using,postgres-ram)
DISK := $(call using,postgres)

# A test that prints only what it logs, and all of it if it fails: $(call logged,PACKAGE,TEST,LIMIT).
logged = go test -count=1 -timeout $(3) -v -run '$(2)' $(1) | \
	sed -uE '/^ *(=== |--- PASS|PASS$$|ok )/d; s/^ +[a-z_]+_test\.go:[0-9]+: //'

help: ## print this help
	@awk -F ':.*## ' '/^##@ / {printf "\n%s\n", substr($$0, 5)} \
	/^[a-z][a-zA-Z0-9_\/-]*:.*## / {printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# As it is shipped (dev/static): what is compiled here is not compiled again for packages and images.
build: ## build bin/belfry
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/belfry

VERSION ?= 0.1.0
packages: $(TOOLS)/nfpm ## build deb and rpm into bin/release: VERSION=0.1.0
	dev/package $(VERSION) bin/release

images: ## build the container images into bin/release, as root: VERSION=0.1.0
	dev/image $(VERSION) bin/release

release: $(TOOLS)/nfpm ## build a release into dist: archives for all platforms, deb, rpm, SBOM, notes, checksums: VERSION=0.1.0
	rm -rf dist
	dev/dist $(VERSION) dist

##@ Tests

# They start first: at the end, one of them alone would leave processors idle.
LONGEST = ./internal/postgres ./test/docs

# Packages whose goroutines share memory, and the clients. The race detector takes several times as long, so the others are
# tested without it, and with it in make test-race. The attacks of hostile servers have limits of CPU time and memory.
RACES = $$(go list ./internal/app/... ./internal/archiver ./internal/clock ./internal/engine/... ./internal/loop \
	./internal/member ./internal/path/... ./internal/pull ./internal/server/... ./internal/share ./internal/store ./internal/tally \
	./internal/target/... ./internal/telemetry ./internal/tracing ./test/sdk ./web | grep -v /targettest/)

# Lint runs all that vet checks.
test: test/plain test/race test/cluster ## run all tests once on a real PostgreSQL 15 (SERVICES="nats kafka …": and with these)

test/plain: | $(TOOLS)/gotestsum ## run the tests of packages without goroutines that share memory
	@dev/need gcc bwrap curl jq
	races=$(RACES) && others=$$(go list ./... | grep -vxF -e "$$races" -e github.com/belfry-dev/belfry/test/cluster) && \
	$(call using,postgres-ram $(SERVICES)) dev/tests -vet=off -parallel 4 -timeout 30m $(LONGEST) $$others

test/race: | $(TOOLS)/gotestsum ## run the tests of the others with the race detector
	@dev/need gcc bwrap jq
	races=$(RACES) && $(call using,postgres-ram $(SERVICES)) dev/tests -vet=off -race -timeout 30m $$races

# Drills that others contain: TestAll kills nodes and the database, TestBroker sends to Kafka.
CONTAINED = ^Test(Kill9|DatabaseKill9|HotTopic)$$

# Drills wait more than they compute. Not from Go's cache, which does not see the program that they start.
test/cluster: | $(TOOLS)/gotestsum ## lose nodes, databases and brokers in short forms (CONTAINED=: also those that others contain)
	@dev/need gcc jq
	$(call using,postgres-ram $(SERVICES)) dev/tests -vet=off -count=1 -parallel 4 -timeout 30m -skip '$(CONTAINED)' ./test/cluster

test-race: | $(TOOLS)/gotestsum ## run all tests with the race detector, each drill too (an hour on 2 cores)
	@dev/need gcc bwrap curl jq
	$(call using,postgres-ram $(SERVICES)) dev/tests -count=1 -race -timeout 90m ./test/cluster $(LONGEST) ./...

# What depends on the version of PostgreSQL: plans, migrations, partitions, roles, row-level security, locks and wakes.
ON_18 = cd internal/postgres && { grep -lE 'explain\w*\(' *_test.go; ls contract_test.go failover_test.go history*_test.go \
	inspect_test.go member_test.go migrate*_test.go owner_test.go query_test.go *role_test.go row_security_test.go \
	schema_comment_test.go session_test.go stuck_test.go wake_test.go worker_security_test.go; } | sort -u | \
	xargs sed -nE 's/^func (Test\w+).*/\1/p' | paste -sd '|'

test-pg18: | $(TOOLS)/gotestsum ## run what depends on the version of PostgreSQL on 18 (ALL=1: all that needs a database)
	@dev/need npm jq
	tests=$$($(ON_18)) && $(call using,postgres18) dev/tests -vet=off -count=1 -parallel 4 -timeout 30m \
	$(if $(ALL),./internal/pgtest/... ./internal/postgres/...,-run "^($$tests)\$$" ./internal/postgres)

test-pgbouncer: | $(TOOLS)/gotestsum ## migrate, connect and lose nodes through PgBouncer in transaction mode
	@dev/need jq
	$(call using,postgres pgbouncer) dev/tests -vet=off -count=1 -run 'PgBouncer|MigrateAtOnce' ./internal/postgres/... && \
	DATABASE=pgbouncer dev/tests -vet=off -count=1 -run '^Test(Kill9|Pause)$$' ./test/cluster

# Servers that the tests of targets use. The tests start other receivers themselves.
TARGET_SERVICES ?= nats rabbitmq kafka podman

# All tests, not a list of names: make test skips a test whose server is not there, so this is where it runs.
test-targets: ## run the tests of all targets against real servers
	@dev/need gcc bwrap
	$(if $(TARGET_SERVICES),$(call using,$(TARGET_SERVICES))) go test -race -count=1 ./internal/target/...

# What make test skips: the bucket on a real S3 server, and DuckDB, which reads the archive without Belfry's code.
test-archive: $(TOOLS)/duckdb/installed ## test the format and the stores of the archive, with a real S3 server and DuckDB
	$(call using,s3) BELFRY_TEST_DUCKDB=$(TOOLS)/duckdb/bin/python go test -count=1 ./internal/archive/...

$(TOOLS)/duckdb/installed: dev/duckdb/requirements.txt
	@dev/need python3-venv
	rm -rf $(TOOLS)/duckdb
	python3 -m venv $(TOOLS)/duckdb
	$(TOOLS)/duckdb/bin/pip install -q --disable-pip-version-check -r $<
	touch $@

hostile: ## run every attack of hostile servers on targets, each against a process of its own, and print a table (minutes)
	HOSTILE=all $(call logged,./internal/target/targettest/hostile,^TestHostile$$,30m)

# Variables of the call select the long form, and make passes them on: BROKER=RabbitMQ KILLS=40 SECONDS=300 JOBS=100.
BROKER_TESTS = $(if $(BROKER),^TestBroker$$/^$(BROKER)$$,^(TestBroker|TestHotTopic)$$)
BROKER_LIMIT = $(if $(findstring command,$(origin SECONDS)),120m,15m)
test-brokers: ## kill, cut and wipe Kafka, NATS and RabbitMQ while runs are due (BROKER=… KILLS=… SECONDS=… JOBS=…)
	$(call using,postgres-ram $(TARGET_SERVICES)) $(call logged,./test/cluster,$(BROKER_TESTS),$(BROKER_LIMIT))

test-dst: ## compare every zone, transition 2000-2040 and expression with the oracle (minutes)
	BELFRY_DST=full $(call logged,./internal/oracle/,DST,60m)

test-sdk: web/node_modules ## test the Go client, and that a TypeScript client can be generated
	@dev/need gcc npm
	cd sdk/go && GOWORK=off go test -race ./...
	dev/typescript/test

schemathesis: SECONDS = 300
schemathesis: ## walk the API by its description and fail if an answer is not as described: SECONDS=300
	@dev/need python3-venv psql
	$(RAM) SCHEMATHESIS_SECONDS=$(SECONDS) dev/schemathesis/test

# Prometheus 3 reads rules and histograms in another way. It takes some minutes to build.
test-prometheus3: $(TOOLS)/promtool3/promtool ## test alerts, recording rules and the mixin with Prometheus 3, built from its module
	PROMTOOL=$(TOOLS)/promtool3/promtool JSONNET=$(TOOLS)/promtool3/jsonnet go test -count=1 -v ./test/deploy

$(TOOLS)/promtool3/promtool: dev/promtool/go.mod
	mkdir -p $(TOOLS)/promtool3
	GOWORK=off go build -C dev/promtool -tags remove_all_sd -o $(TOOLS)/promtool3/ tool
	touch $@

docs-site: $(TOOLS)/site/installed ## build the documentation as a site into bin/site, and check its links
	dev/site/test $(TOOLS)/site/bin/python

$(TOOLS)/site/installed: dev/site/requirements.txt
	@dev/need python3-venv
	rm -rf $(TOOLS)/site
	python3 -m venv $(TOOLS)/site
	$(TOOLS)/site/bin/pip install -q --disable-pip-version-check -r $<
	touch $@

test-chart: $(TOOLS)/helm/helm ## lint, render and validate the Helm chart, and run its unit tests (Helm takes minutes to build, once)
	modules="$$(dev/kubernetes/modules)" && HELM_TOOLS=$(TOOLS)/helm HELM_MODULES="$$modules" \
	$(call logged,./test/deploy/chart,^Test[^K],10m)

# Outside the repository, because it is large, and the same for most commits.
KUBERNETES ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/belfry/kubernetes
test-helm: $(TOOLS)/helm/helm tools/kubernetes ## install, upgrade and roll back the chart on a real Kubernetes API (built once, 20 minutes)
	modules="$$(dev/kubernetes/modules)" && HELM_TOOLS=$(TOOLS)/helm HELM_MODULES="$$modules" KUBERNETES=$(KUBERNETES) \
	$(call logged,./test/deploy/chart,^TestKubernetes$$,30m)

tools/kubernetes: ## build kube-apiserver, its controllers, etcd and kwok from their modules into KUBERNETES=~/.cache/belfry/kubernetes
	dev/kubernetes/build $(KUBERNETES)

$(TOOLS)/helm/helm: dev/helm/go.mod
	mkdir -p $(TOOLS)/helm
	GOWORK=off go build -C dev/helm -o $(TOOLS)/helm/ tool
	touch $@

test-docs: ## execute or validate every code block of the documentation, and count them
	@dev/need curl
	$(RAM) $(call logged,./test/docs,^TestEveryBlock$$,10m)

test-deploy: $(TOOLS)/actionlint $(TOOLS)/nfpm $(TOOLS)/compose/installed ## test what is shipped in addition to the program, in its short form: units, release, images, package and compose with a run, alerts, dashboards, site
	@dev/need systemd-analyze rpm npm jq minisign prometheus
	test/deploy/units
	rm -rf bin/dist && BELFRY_DIST=$(CURDIR)/bin/dist test/deploy/release
	$(RAM) BELFRY_DIST=$(CURDIR)/bin/dist test/deploy/starts
	dev/grafana/test
	ACTIONLINT=$(TOOLS)/actionlint go test -count=1 ./test/deploy
	$(MAKE) --no-print-directory docs-site

test-deploy-all: test-deploy test-packages test-images test-compose test-install test-systemd test-dashboards test-prometheus3 test-chart test-helm test-release ## the same with all long forms (an hour)

test-dashboards: ## check the dashboards by Grafana's types, and evaluate each expression on a Prometheus that scrapes two loaded nodes
	@dev/need npm prometheus
	dev/grafana/test
	$(RAM) BELFRY_PROMETHEUS=1 $(call logged,./test/cluster,^TestDashboards$$,10m)

test-packages: $(TOOLS)/nfpm ## build deb and rpm twice, run lintian, and install, upgrade and purge in a Debian root
	test/deploy/packages

test-release: $(TOOLS)/nfpm ## build a release for all platforms, twice, and compare, unpack, verify and start it (20 minutes)
	BELFRY_RELEASE=all test/deploy/release

test-images: ## the images, also the one for commands: build them twice, and start a node and a sandbox (4 minutes)
	$(RAM) BELFRY_IMAGES="plain command" test/deploy/images

test-compose: $(TOOLS)/compose/installed ## start the compose file with local images and the commands of the guide (4 minutes)
	test/deploy/compose

$(TOOLS)/compose/installed: dev/compose/requirements.txt
	@dev/need python3-venv
	rm -rf $(TOOLS)/compose
	python3 -m venv $(TOOLS)/compose
	$(TOOLS)/compose/bin/pip install -q --disable-pip-version-check -r $<
	touch $@

test-install: $(TOOLS)/nfpm ## install two nodes from nothing with the commands of the guide, on two machines with Debian that are booted (3 minutes)
	test/deploy/install

test-systemd: $(TOOLS)/nfpm ## boot a Debian with systemd and PostgreSQL, and run a node under its unit, with and without commands (3 minutes)
	test/deploy/systemd

quickstart: ## do what the README's start says, in an empty directory, until a run is in history
	dev/quickstart

test-ui: web/types build ## test the web UI: its code, and in a real browser against a real node (SHOTS=directory: pictures; AXE=all: axe on phones in each state)
	@dev/need chromium-headless-shell
	cd web && npm run --silent lint && npm run --silent test && AXE=$(AXE) npm run --silent e2e

why: ## print each story of belfry why, from a real node (UPDATE=1: write what tests compare with)
	@$(RAM) out=$$(mktemp) && trap 'rm -f "$$out"' EXIT && BELFRY_WHY=$(if $(UPDATE),update) BELFRY_WHY_FILE="$$out" \
	go test -count=1 -run '^TestWhy$$' ./internal/cli && cat "$$out"

vulncheck: ## ask govulncheck for known vulnerabilities that the code reaches (needs the public database of Go)
	go run golang.org/x/vuln/cmd/govulncheck@v1.8.0 ./...
	cd sdk/go && GOWORK=off go run golang.org/x/vuln/cmd/govulncheck@v1.8.0 ./...

slowloris: ## the API under 5,000 connections that send their headers byte by byte
	$(RAM) SLOW=5000 go test -count=1 -v -run '^TestSlowloris$$' ./internal/server

fuzz: ## run every fuzz test for FUZZTIME (default 5m)
	dev/fuzz $(FUZZTIME)

##@ Clusters under faults, in their long form

# Its last line is the checker's.
define long-form
	$(if $(filter pgbouncer,$(DATABASE)),$(call using,postgres-ram pgbouncer),$(RAM)) KILLS=$(KILLS) SECONDS=$(SECONDS) JOBS=$(JOBS) CRASHES=$(CRASHES) HANDOVERS=$(HANDOVERS) TRIES=$(TRIES) \
	$(call logged,./test/cluster,^Test$(1)$$,120m)
endef

cluster: ## FAULT=Kill9 (or another test of test/cluster: Restarts, Down …) KILLS=200 SECONDS=60 JOBS=50 [DATABASE=pgbouncer]
	$(call long-form,$(FAULT))

cluster-all: KILLS = 1000
cluster-all: SECONDS = 360
cluster-all: JOBS = 300
cluster-all: ## the long report: 1000 nodes and 5 databases killed, 300 handovers, 100000 occurrences (7 minutes)
	$(call long-form,All)

shown: KILLS = 60
shown: SECONDS = 180
shown: ## compare what the web UI shows with the ledger while nodes are killed, KILLS=60 times within SECONDS=180
	$(call long-form,ShownWhile.*)

missed: OUTAGES = 20s,40s,82s,5m
missed: ## stop and kill the only node for OUTAGES=20s,40s,82s,5m, with every missed policy: expected and actual (12 minutes)
	$(RAM) OUTAGES=$(OUTAGES) $(call logged,./test/cluster,^TestMissed$$,30m)

takeover: KILLS = 50
takeover: ## kill the owner of partitions, KILLS=50 times, and measure until their runs start again (8 minutes)
	$(call long-form,Takeover)

outage: ATTEMPTS = 1000
outage: ATTEMPT_SECONDS = 60
outage: DOWN = 30
outage: ## stop the database for DOWN=30 seconds while ATTEMPTS=1000 of ATTEMPT_SECONDS=60 are in flight (4 minutes)
	$(RAM) ATTEMPTS=$(ATTEMPTS) ATTEMPT_SECONDS=$(ATTEMPT_SECONDS) DOWN=$(DOWN) \
	$(call logged,./test/cluster,^TestOutage$$,30m)

recovery: DOWN = 10,30,90
recovery: RATES = 500,2000
recovery: RTT = 0,4,20
recovery: POLICIES =
recovery: ## seconds until nothing is late after DOWN=10,30,90 s without database, at RATES=500,2000 runs/s and RTT=0,4,20 ms (90 minutes)
	$(RAM) DOWN=$(DOWN) RATES=$(RATES) RTT=$(RTT) POLICIES=$(POLICIES) $(call logged,./test/cluster,^TestRecovery$$,180m)

test-alerts: ## fire the shipped alerts on a real Prometheus: kill nodes, stop the database, pause a queue … (20 minutes)
	@dev/need gcc prometheus
	$(RAM) BELFRY_ALERTS=1 $(call logged,-parallel 2 ./test/cluster,^TestAlerts$$,40m)

test-restore: ## restore PostgreSQL to an earlier time with pgBackRest, and accept that with skip and with run (3 minutes)
	@dev/need pgbackrest
	$(RAM) BELFRY_RESTORE=1 $(call logged,./test/cluster,^TestRestore$$,30m)

# The release before this commit. Until there is one, the oldest commit with the schema of this one.
test-upgrade: OLD = $(shell git describe --tags --match 'v*' --abbrev=0 HEAD^ 2>/dev/null || \
	git log -1 --format=%h -- internal/postgres/migration)
test-upgrade: SECONDS = 180
test-upgrade: ## upgrade from commit OLD=… to this one, roll back and forward, under load for SECONDS=180; old clients (6 minutes)
	$(RAM) BELFRY_UPGRADE=$(OLD) SECONDS=$(SECONDS) JOBS=$(JOBS) $(call logged,./test/cluster,^TestUpgrade$$,60m)

# Its own primary and two synchronous standbys.
failover: JOBS = 512
failover: ## kill, stop and cut off the primary, FAILOVERS=50 times, with JOBS=512 runs and 20 × BULK=20 creates a second
	$(RAM) FAILOVERS=$(FAILOVERS) JOBS=$(JOBS) BULK=$(BULK) $(call logged,./test/cluster,^TestFailover$$,120m)

failover-patroni: FAILOVERS = 4
failover-patroni: ## the same with Patroni, which is not part of any other target: kill and stop its leader, FAILOVERS=4 times
	@dev/need patroni
	$(RAM) PATRONI=1 FAILOVERS=$(FAILOVERS) $(call logged,./test/cluster,^TestFailoverPatroni$$,60m)

test-sites: ## the steps of docs/guide/sites.md: switch over to another site and back, and lose a site (2 minutes)
	$(RAM) SITES=1 $(call logged,./test/cluster,^Test(Switchover|SiteLost)$$,30m)

clock: SECONDS = 15
clock: ## wrong clocks of PostgreSQL, from 2 minutes to a year off, for twice SECONDS=15 each (6 minutes)
	@dev/need gcc
	$(call long-form,DatabaseClock)

neighbours: FLOOD = 100000
neighbours: IDLE = 20000
neighbours: SECONDS = 20
neighbours: ## how late 200 runs/s are while another namespace has runs, or attacks: silent hosts, brokers, long polls, IDLE=20000 connections, FLOOD=100000 runs; ATTACK="polls|idle" selects some (10 minutes)
	NEIGHBOURS=1 ATTACK="$(ATTACK)" SLOTS=1000 JOBS=200 HOSTS=1000 UNCONFIRMED=1000 KEYS=100 POLLS=40 REQUESTS=1000 BODIES=500 \
	IDLE=$(IDLE) FLOOD=$(FLOOD) SECONDS=$(SECONDS) $(call logged,./test/cluster,^TestNeighbours$$,60m)

takeover-stuck: PAUSES = 50
takeover-stuck: JOBS = 2000
takeover-stuck: ## suspend a node inside a claim of 1,000 payloads of 64 kB, PAUSES=50 times, and measure the takeover
	export PAUSES=$(PAUSES); $(call long-form,TakeoverStuck)

worker-crashes: KILLS = 5000
worker-crashes: SECONDS = 900
worker-crashes: ## workers die at each step, KILLS=5000 times, within SECONDS=900
	$(call long-form,WorkerCrashes)

last-start: ## pause or delete jobs, TRIES=10000 times, and measure until their last run starts (8 minutes)
	$(call long-form,NothingStartsAfterTheAnswer)

##@ Measurements, on a PostgreSQL with fsync

bench: ## Next
	go test -run '^$$' -bench . -benchmem ./internal/schedule

bench/hot-second: build ## many jobs due at one instant: BENCH="--jobs 50000 --target http --html hot.html"
	$(DISK) bin/belfry bench hot-second --database-url "$$BELFRY_TEST_DATABASE_URL" $(BENCH)

bench/steady: build ## everyday traffic: BENCH="--jobs 1000000 --rate 1000 --duration 2m"
	$(DISK) bin/belfry bench steady --database-url "$$BELFRY_TEST_DATABASE_URL" $(BENCH)

bench/compare: ## this checkout against another commit, in turns: BASE=HEAD~1 ROUNDS=3
	@dev/need jq
	$(DISK) dev/compare $(or $(BASE),HEAD~1) $(ROUNDS)

bench/engine: build ## runs per second, compared with the bare SQL: BENCH="--jobs 200000"
	$(DISK) bin/belfry bench engine --database-url "$$BELFRY_TEST_DATABASE_URL" $(BENCH)

measure-snapshot: ## the path under a snapshot that is held for 90 s
	$(DISK) BELFRY_SNAPSHOT_SECONDS=90 BELFRY_SNAPSHOT_JOBS=100000 BELFRY_SNAPSHOT_DEAD=5000000 \
	$(call logged,./internal/postgres,HeldSnapshot,60m)

plan-backlog: JOBS = 1000000
plan-backlog: ## plan what JOBS=1000000 jobs of every minute missed in an hour without nodes
	$(DISK) BELFRY_BACKLOG_JOBS=$(JOBS) $(call logged,./internal/postgres,PlanBacklog,120m)

history-reader: SECONDS = 600
history-reader: ## completions while a reader is open for SECONDS=600 and days of history are created and dropped
	$(DISK) BELFRY_HISTORY_READER_SECONDS=$(SECONDS) $(call logged,./internal/postgres,HistoryUnderLoadBehindAReader,60m)

measure-rate: ## claim and complete, with right and wrong statistics: within 1.3 of each other
	$(DISK) BELFRY_RATE=1 $(call logged,./internal/postgres,RateOfHotStatements,60m)

measure-policies: JOBS = 20000
measure-policies: ROUNDS = 5
measure-policies: ## runs/s of JOBS=20000 jobs due at once with each policy, ROUNDS=5 times in turns: at least 0.8 of plain ones
	$(DISK) BELFRY_POLICIES=$(JOBS) ROUNDS=$(ROUNDS) $(call logged,./internal/engine,^TestMeasurePolicies$$,60m)

measure-slow-host: ## lateness of runs to a fast host, alone and with 10,000 runs to a host that takes 30 s
	$(DISK) BELFRY_SLOW_RUNS=10000 BELFRY_SLOW_SECONDS=60 BELFRY_SLOW_SLOTS=1000 BELFRY_SLOW_ANSWER_MS=30000 \
	$(call logged,./internal/app,ASlowHostBesideAFastOne,60m)

measure-workers: ## 1,000 slots in 10 processes: throughput of a backlog of RUNS=200000, lateness at RATE=1000/s
	$(DISK) BELFRY_WORKERS=1 $(call logged,./test/cluster,^TestMeasureWorkers$$,30m)

measure-trigger: ## how long after a trigger its run starts, TRIGGERS=200 times on three idle nodes: p99 within 50 ms
	$(DISK) BELFRY_TRIGGER=strict $(call logged,./test/cluster,^TestMeasureTrigger$$,30m)

measure-autoscale: JOBS = 20000
measure-autoscale: ## lateness of JOBS=20000 runs due at once, with workers scaled by desired_slots and by depth, in turns
	$(DISK) BELFRY_AUTOSCALE=$(JOBS) $(call logged,./test/cluster,^TestMeasureAutoscale$$,60m)

measure-archive: ROWS = 20000000
measure-archive: $(TOOLS)/duckdb/installed ## export, verify with DuckDB and drop a day of ROWS=20000000 runs: rows/s, bytes/row
	$(DISK) ROWS=$(ROWS) BELFRY_TEST_DUCKDB=$(TOOLS)/duckdb/bin/python $(call logged,./internal/archiver,^TestManyRows$$,60m)

measure-export: ROWS = 1000000
measure-export: ## lateness of 200 runs/s while a day of ROWS=1000000 runs is exported, and alone, in turns: at most 1.1 times
	$(DISK) ROWS=$(ROWS) $(call logged,./test/cluster,^TestMeasureExport$$,60m)

archive-kill: KILLS = 200
archive-kill: ## kill -9 a process that exports a day, KILLS=200 times at each of its nine steps
	$(call using,postgres-ram) KILLS=$(KILLS) $(call logged,./internal/archiver,^TestKill$$,120m)

measure-idle: ## the queries of a node that has 1,000,000 quiet jobs
	$(DISK) BELFRY_IDLE_JOBS=1000000 BELFRY_IDLE_SECONDS=60 $(call logged,./internal/app,Idle,60m)

measure-lists: ## each filter of the lists with JOBS_LISTED=1000000 jobs, 5 ended runs each: p95 within 100 ms
	$(DISK) BELFRY_LISTS=$(JOBS_LISTED) $(call logged,./internal/server,ListsStayFast,60m)

measure-ui: SCREEN_JOBS = 10000000
measure-ui: ## the requests of each screen of the web UI, with SCREEN_JOBS=10000000 jobs that stay in a database of 16 GB: p95 within 100 ms
	$(DISK) BELFRY_SCREENS=$(SCREEN_JOBS) $(call logged,./internal/server,ScreensStayFast,120m)

measure-viewers: ## CPU of a node and lateness of 200 runs/s, with 50 viewers of the web UI and with none, in turns; requests of each screen
	$(DISK) BELFRY_VIEWERS=50 ROUNDS=4 SECONDS=30 JOBS=200 $(call logged,./test/cluster,^TestMeasureViewers$$,30m)

measure-bulk: ## bulk create over the API, with shared schedules and one each: 5,000 jobs/s
	$(DISK) BELFRY_BULK=50000 $(call logged,./internal/server,BulkCreateIsFast,60m)

measure-plan: ## plan with 10,000 and 1,000,000 jobs on 60 schedules and on one each
	$(DISK) BELFRY_PLAN_JOBS=1000000 $(call logged,./internal/postgres,PlanCost,60m)

measure-tracing: ROUNDS = 4
measure-tracing: build ## bench engine with a collector at ratio 0.01, with one that never answers, and without, ROUNDS=4 times forth and back: at least 0.97
	@dev/need jq
	$(DISK) dev/measure-tracing $(ROUNDS)

measure-kafka: ## RUNS=100000 runs due in one second: each in the topic once, and how long it takes
	$(call using,postgres kafka) RUNS=$(RUNS) $(call logged,./test/cluster,^TestHotTopic$$,30m)

##@ Code, generated files and tools

lint: lint/code lint/prose ## run the linters: code with the import arrows, and prose

lint/code: $(TOOLS)/golangci-lint
	$(TOOLS)/golangci-lint run ./...
	cd sdk/go && $(TOOLS)/golangci-lint run ./...
	go test ./internal
	GOWORK=off go vet -C dev/probe ./...
	GOWORK=off go vet -C dev/sbom ./...

# Vale reads Markdown, Go comments and the API description itself. dev/prose extracts the rest.
lint/prose: $(TOOLS)/vale ## check the words of docs, comments, messages, help and API description (seconds)
	$(TOOLS)/vale test dev/vale
	go run ./dev/prose $(TOOLS)/prose
	$(TOOLS)/vale --output=line *.md docs sdk cmd internal test dev web/*.go api/openapi.yaml $(TOOLS)/prose

fmt: $(TOOLS)/golangci-lint ## format the code
	$(TOOLS)/golangci-lint fmt ./...

generate: generate/mod generate/config generate/schema generate/api generate/sdk web ## generate all generated files again

generate/mod:
	go mod tidy
	cd sdk/go && GOWORK=off go mod tidy

generate/config:
	go run ./cmd/belfry config reference >docs/reference/configuration.md

generate/schema:
	$(RAM) go run ./dev/schema >docs/reference/schema.md
	$(RAM) BELFRY_OBJECTS=update go test ./internal/postgres -run '^TestInspectFindsMissingObjects$$' -count=1

generate/api:
	go run ./dev/openapi >api/openapi.yaml

generate/sdk: generate/api $(TOOLS)/oapi-codegen
	cd sdk/go && $(TOOLS)/oapi-codegen -config oapi-codegen.yaml ../../api/openapi.yaml >models.gen.go

# The UI needs Node. Its packages are installed when the lock file has changed.
web/node_modules: web/package-lock.json dev/typescript/package-lock.json
	@dev/need npm
	npm ci --ignore-scripts --prefix web --silent --no-audit --no-fund
	npm ci --ignore-scripts --prefix dev/typescript --silent --no-audit --no-fund
	touch $@

web/types: web/node_modules ## generate the types of the API for the web UI
	cd dev/typescript && npx openapi-typescript ../../api/openapi.yaml -o ../../web/src/api/schema.gen.ts >/dev/null

web/build: web/types
	cd web && npm run --silent build

web: web/build ## build the web UI into web/dist.zip, which is committed
	go run ./dev/webzip pack web/dist web/dist.zip

verify: verify/mod verify/config verify/schema verify/api verify/sdk verify/web ## fail if generate would change a file

verify/mod:
	go mod tidy -diff
	go mod verify
	cd sdk/go && GOWORK=off go mod tidy -diff

verify/config:
	go run ./cmd/belfry config reference | diff docs/reference/configuration.md -

verify/schema:
	$(RAM) go run ./dev/schema | diff docs/reference/schema.md -
	$(RAM) BELFRY_OBJECTS=verify go test ./internal/postgres -run '^TestInspectFindsMissingObjects$$' -count=1

verify/api:
	go run ./dev/openapi | diff api/openapi.yaml -

verify/sdk: $(TOOLS)/oapi-codegen
	cd sdk/go && $(TOOLS)/oapi-codegen -config oapi-codegen.yaml ../../api/openapi.yaml | diff models.gen.go -

verify/web: web/build
	go run ./dev/webzip check web/dist web/dist.zip

services: ## start the PostgreSQL that tests use
	@dev/services up postgres-ram

tools: $(TOOLS)/golangci-lint ## build the pinned tools into .tools/

PINNED := $(addprefix $(TOOLS)/,golangci-lint gotestsum oapi-codegen vale)
$(PINNED) &: dev/tools/go.mod
	@dev/need gcc
	mkdir -p $(TOOLS)
	GOWORK=off go build -C dev/tools -o $(TOOLS)/ tool
	touch $(PINNED)

# The packager has a module of its own: its dependencies are many, and no other tool needs them.
$(TOOLS)/nfpm: dev/release/go.mod
	mkdir -p $(TOOLS)
	GOWORK=off go build -C dev/release -o $(TOOLS)/ github.com/goreleaser/nfpm/v2/cmd/nfpm
	touch $@

$(TOOLS)/actionlint: dev/actionlint/go.mod
	mkdir -p $(TOOLS)
	GOWORK=off go build -C dev/actionlint -o $(TOOLS)/ github.com/rhysd/actionlint/cmd/actionlint
	touch $@

clean: ## remove what was built (services and their data stay: dev/services down --wipe)
	rm -rf bin dist .tools web/dist web/node_modules dev/typescript/node_modules

# Every target is phony but the tools.
.PHONY: $(shell sed -nE 's/^([a-z][a-z0-9/-]*):.*/\1/p' $(MAKEFILE_LIST))
