# `make` prints this help. Each target with a ## is listed.
SHELL := /bin/bash
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
RUNS ?= 100000
JOBS_LISTED ?= 1000000

help: ## print this help
	@awk -F ':.*## ' '/^[a-z][a-zA-Z0-9_\/-]*:.*## / {printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/belfry
	go build -trimpath -o bin/ ./cmd/belfry

test: services ## run all tests with the race detector on a real PostgreSQL 15
	eval "$$(dev/services env postgres-ram)" && $(TOOLS)/gotestsum --format pkgname-and-test-fails -- -race ./...

test-pg18: ## run the tests that need a database on PostgreSQL 18
	dev/services up postgres18
	eval "$$(dev/services env postgres18)" && go test -race -count=1 ./internal/pgtest/... ./internal/postgres/...

test-pgbouncer: ## run the migrations through PgBouncer in transaction mode
	dev/services up pgbouncer
	eval "$$(dev/services env postgres pgbouncer)" && go test -race -count=1 ./internal/postgres/...

# What the targets of the suite need to be running, beside the receivers that they start themselves.
TARGET_SERVICES ?= nats rabbitmq kafka podman

# All tests, not a list of names: a test that needs a server and is not on it would never run, as make test skips it.
test-targets: ## run the tests of all targets against real servers
	$(if $(TARGET_SERVICES),dev/services up $(TARGET_SERVICES) && eval "$$(dev/services env $(TARGET_SERVICES))" &&) go test -race -count=1 ./internal/target/...

# The long form is asked for by variables of the call, which make hands on: BROKER=RabbitMQ KILLS=40 SECONDS=300 JOBS=100.
test-brokers: services ## runs for Kafka, NATS and RabbitMQ, which are killed, lose answers and are wiped; many runs at once for Kafka (BROKER=… KILLS=… SECONDS=… JOBS=…)
	dev/services up $(TARGET_SERVICES)
	set -o pipefail; eval "$$(dev/services env postgres-ram $(TARGET_SERVICES))" && go test -count=1 -timeout $(if $(findstring command,$(origin SECONDS)),120m,15m) -v -run '$(if $(BROKER),^TestBroker$$/^$(BROKER)$$,^(TestBroker|TestHotTopic)$$)' ./test/cluster | grep -E "_test.go|^ *---|^(ok|FAIL|PASS)"

test-dst: ## compare every zone, transition 2000-2040 and expression with the oracle (minutes)
	set -o pipefail; BELFRY_DST=full go test -count=1 -timeout 60m -run DST -v ./test/oracle/ | grep -vE "^ *(=== |--- PASS: .*/)"

test-sdk: ## test the Go client, and that a TypeScript client can be made (needs npm)
	cd sdk/go && GOWORK=off go test -race ./...
	dev/typescript/test

schemathesis: SECONDS = 300
schemathesis: services ## walk the API by its description and fail on what is not as described: SECONDS=300 (needs python3)
	eval "$$(dev/services env postgres-ram)" && SCHEMATHESIS_SECONDS=$(SECONDS) dev/schemathesis/test

quickstart: ## do what the README's start says, in an empty directory, until a run is in history
	dev/quickstart

why: services ## make each story of belfry why happen on a real node, and print them (UPDATE=1: write what tests compare with)
	@eval "$$(dev/services env postgres-ram)" && out=$$(mktemp) && trap 'rm -f "$$out"' EXIT && \
	BELFRY_WHY=$(if $(UPDATE),update) BELFRY_WHY_FILE="$$out" go test -count=1 -run '^TestWhy$$' ./cmd/belfry && cat "$$out"

test-services: ## start every service and pass a message through each
	dev/services up all && dev/services status

# The long form of a test in test/cluster; its last line is the checker's.
define long-form
	set -o pipefail; eval "$$(dev/services env postgres-ram)" && KILLS=$(KILLS) SECONDS=$(SECONDS) JOBS=$(JOBS) CRASHES=$(CRASHES) HANDOVERS=$(HANDOVERS) TRIES=$(TRIES) \
	go test -count=1 -timeout 120m -v -run '^Test$(1)$$' ./test/cluster | sed -E '/^(=== |--- PASS|PASS$$|ok )/d; s/^ +[a-z_]+_test\.go:[0-9]+: //'
endef

cluster: services ## a fault while runs are due: FAULT=Kill9|Restarts|DatabaseKill9|Terminated|Handover|Overlap|Down|APIDuringFaults KILLS=200 SECONDS=60 JOBS=50
	$(call long-form,$(FAULT))

cluster-all: KILLS = 1000
cluster-all: SECONDS = 360
cluster-all: JOBS = 300
cluster-all: services ## the long report: 1000 nodes and 5 databases killed, 300 handovers, 100000 occurrences (7 minutes)
	$(call long-form,All)

takeover: KILLS = 50
takeover: services ## kill the owner of partitions, KILLS=50 times, and measure until their runs start again (8 minutes)
	$(call long-form,Takeover)

worker-crashes: KILLS = 5000
worker-crashes: SECONDS = 900
worker-crashes: services ## workers die at each step, KILLS=5000 times, within SECONDS=900
	$(call long-form,WorkerCrashes)

last-start: services ## pause or delete jobs, TRIES=10000 times, and measure until their last run starts (8 minutes)
	$(call long-form,NothingStartsAfterTheAnswer)

fuzz: ## fuzz each parser for FUZZTIME (default 5m)
	for f in FuzzCron FuzzRRule FuzzJSON; do go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) ./internal/schedule || exit 1; done
	go test -run '^$$' -fuzz '^FuzzFile$$' -fuzztime $(FUZZTIME) ./internal/config

bench: ## measure Next
	go test -run '^$$' -bench . -benchmem ./internal/schedule

measure-snapshot: ## measure the path under a snapshot that is held for 90 s, on a PostgreSQL with fsync
	eval "$$(dev/services env postgres)" && BELFRY_SNAPSHOT_SECONDS=90 BELFRY_SNAPSHOT_JOBS=100000 BELFRY_SNAPSHOT_DEAD=5000000 go test -count=1 -timeout 60m -v -run HeldSnapshot ./internal/postgres

measure-rate: ## claim and complete, with right and wrong statistics: within 1.3 of each other
	eval "$$(dev/services env postgres)" && BELFRY_RATE=1 go test -count=1 -timeout 60m -v -run RateOfHotStatements ./internal/postgres

measure-slow-host: ## lateness of runs to a fast host, alone and beside 10,000 runs to one that takes 30 s
	eval "$$(dev/services env postgres)" && BELFRY_SLOW_RUNS=10000 BELFRY_SLOW_SECONDS=60 BELFRY_SLOW_SLOTS=1000 BELFRY_SLOW_ANSWER_MS=30000 go test -count=1 -timeout 60m -v -run ASlowHostBesideAFastOne ./internal/app | grep lateness

measure-workers: ## 1,000 slots of workers in 10 processes: runs per second of a backlog of RUNS=200000, then lateness at RATE=1000 runs per second
	dev/services up postgres && eval "$$(dev/services env postgres)" && BELFRY_WORKERS=1 go test -count=1 -timeout 30m -v -run '^TestMeasureWorkers$$' ./test/cluster | sed -E '/^(=== |--- PASS|PASS$$|ok )/d; s/^ +[a-z_]+_test\.go:[0-9]+: //'

measure-idle: ## count what a node asks that has 1,000,000 quiet jobs
	eval "$$(dev/services env postgres)" && BELFRY_IDLE_JOBS=1000000 BELFRY_IDLE_SECONDS=60 go test -count=1 -timeout 60m -v -run Idle ./internal/app

measure-lists: ## each filter of the lists with JOBS_LISTED=1000000 jobs and 5 times as many ended runs: p95 within 100 ms
	dev/services up postgres && eval "$$(dev/services env postgres)" && set -o pipefail && BELFRY_LISTS=$(JOBS_LISTED) go test -count=1 -timeout 60m -v -run ListsStayFast ./internal/server | sed -E 's/^ +list_measure_test\.go:[0-9]+: //'

measure-bulk: ## bulk create over the API, with shared schedules and one each: 5,000 jobs/s
	dev/services up postgres && eval "$$(dev/services env postgres)" && BELFRY_BULK=50000 go test -count=1 -timeout 60m -v -run BulkCreateIsFast ./internal/server

measure-plan: ## measure plan with 10,000 and 1,000,000 jobs on 60 schedules and on one each
	eval "$$(dev/services env postgres)" && BELFRY_PLAN_JOBS=1000000 go test -count=1 -timeout 60m -v -run PlanCost ./internal/postgres

measure-kafka: ## RUNS=100000 runs due in one second: each in the topic once, and how long it takes
	dev/services up postgres kafka
	set -o pipefail; eval "$$(dev/services env postgres kafka)" && RUNS=$(RUNS) go test -count=1 -timeout 30m -v -run '^TestHotTopic$$' ./test/cluster | grep -E "_test.go|^ *---|^(ok|FAIL|PASS)"

bench/hot-second: build ## many jobs due at one instant: BENCH="--jobs 50000 --target http --html hot.html"
	dev/services up postgres && eval "$$(dev/services env postgres)" && bin/belfry bench hot-second --database-url "$$BELFRY_TEST_DATABASE_URL" $(BENCH)

bench/steady: build ## everyday traffic: BENCH="--jobs 1000000 --rate 1000 --duration 2m"
	dev/services up postgres && eval "$$(dev/services env postgres)" && bin/belfry bench steady --database-url "$$BELFRY_TEST_DATABASE_URL" $(BENCH)

bench/engine: build ## runs per second, beside the bare SQL: BENCH="--jobs 200000"
	dev/services up postgres && eval "$$(dev/services env postgres)" && bin/belfry bench engine --database-url "$$BELFRY_TEST_DATABASE_URL" $(BENCH)

lint: $(TOOLS)/golangci-lint ## run the linters, with the import arrows
	$(TOOLS)/golangci-lint run ./...
	cd sdk/go && $(TOOLS)/golangci-lint run ./...
	GOWORK=off go vet -C dev/probe ./...

house: ## report sizes, wide lines, SQL, background loops and duplicates (CHECK=1: fail if a goal is missed)
	@go run ./dev/house $(if $(CHECK),-check)

fmt: $(TOOLS)/golangci-lint ## format the code
	$(TOOLS)/golangci-lint fmt ./...

generate: generate/mod generate/config generate/api generate/sdk ## make generated files anew

generate/mod:
	go mod tidy
	cd sdk/go && GOWORK=off go mod tidy

generate/config:
	go run ./cmd/belfry config reference >docs/reference/configuration.md

generate/api:
	go run ./dev/openapi >api/openapi.yaml

generate/sdk: generate/api $(TOOLS)/oapi-codegen
	cd sdk/go && $(TOOLS)/oapi-codegen -config oapi-codegen.yaml ../../api/openapi.yaml >client.gen.go

verify: verify/mod verify/config verify/api verify/sdk ## fail if a generated file is not what generate makes

verify/mod:
	go mod tidy -diff
	go mod verify
	cd sdk/go && GOWORK=off go mod tidy -diff

verify/config:
	go run ./cmd/belfry config reference | diff docs/reference/configuration.md -

verify/api:
	go run ./dev/openapi | diff api/openapi.yaml -

verify/sdk: $(TOOLS)/oapi-codegen
	cd sdk/go && $(TOOLS)/oapi-codegen -config oapi-codegen.yaml ../../api/openapi.yaml | diff client.gen.go -

services: ## start the PostgreSQL that tests use
	@dev/services up postgres-ram

tools: $(TOOLS)/golangci-lint ## build the pinned tools into .tools/

$(TOOLS)/golangci-lint $(TOOLS)/gotestsum $(TOOLS)/oapi-codegen &: dev/tools/go.mod
	mkdir -p $(TOOLS)
	GOWORK=off go build -C dev/tools -o $(TOOLS)/ tool
	touch $(TOOLS)/golangci-lint $(TOOLS)/gotestsum $(TOOLS)/oapi-codegen

test: | $(TOOLS)/gotestsum

clean: ## remove what was built (services and their data stay: dev/services down --wipe)
	rm -rf bin .tools

.PHONY: help build quickstart test test-pg18 test-pgbouncer test-targets test-brokers test-dst test-sdk test-services cluster cluster-all takeover last-start fuzz bench measure-snapshot measure-rate measure-idle measure-plan measure-kafka bench/hot-second bench/steady bench/engine lint house fmt generate generate/mod generate/config generate/api generate/sdk verify verify/mod verify/config verify/api verify/sdk services tools clean measure-lists measure-bulk why schemathesis measure-slow-host worker-crashes measure-workers
