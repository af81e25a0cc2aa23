# Every target works from the root of a fresh clone, with Go alone; what else it
# needs it installs, or says what to install.

# Everything is compiled as a release is, so that it is compiled once; the race detector alone needs C.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath
export CGO_ENABLED := 0
GO            ?= go
GOLANGCI      := v2.15.0
GOVULNCHECK   := v1.9.0
ACTIONLINT    := v1.7.12
APIDIFF       := v0.0.0-20261014143641-f0251eb4aa3e
BIN           := $(CURDIR)/.bin
MODULES       := . goredisdriver rueidisdriver valkeydriver memdriver holdfasttest gocronlock otel otel/example cmd/holdfast examples/cache examples/cron examples/fencing examples/leader examples/workers bench test interop robustness release
PUBLISHED     := $(filter-out otel/example examples/% bench test interop robustness release,$(MODULES))
ADAPTERS      := goredisdriver rueidisdriver valkeydriver
PUBLIC        := holdfast driver driverkit memdriver holdfasttest gocronlock otel $(ADAPTERS)
# Of valkey-go the workspace has the oldest one anyway.
OLDEST        := oldest-goredisdriver oldest-rueidisdriver
# The others are built on their own by test-oldest, or as they are published by the tests of release/.
BUILT_ALONE   := $(filter-out . $(ADAPTERS) cmd/holdfast,$(PUBLISHED))
SERVERS       := redis-6.0 redis-7.0 redis-8.0 valkey-8.0 valkey-8.1
EVERYTHING    := github.com/holdfast-go/holdfast/...
# The packages that test/kit is for: those under fake time compute on one processor, the others mostly wait.
# `go test ./PACKAGE` runs any package, from the root; only where it runs in a whole run is said here.
FAKE_TIME     := hold owner handover line fair rw permits multi stress scale
REAL_TIME     := scripts servers topology rights neighbours docs
TESTS         := $(FAKE_TIME:%=test/%) $(REAL_TIME:%=test/%)
# Tests wait more than they compute. Three lanes run beside each other: test-fake two packages at a time, then the tool, then
# test-third; test-real one at a time, which takes as long; test-rest two, those of SLOW_FIRST first and in this order. With
# more at once, those on real servers are late on a busy machine; the three adapters beside each other are too much. Those under
# fake time are never late, so they give way to all others. release and otel/example compile, so they come when
# most of that has been done for others.
SLOW_FIRST    := $(addprefix github.com/holdfast-go/holdfast/,bench/workloads/scale cmd/holdfast/internal/doctor bench/workloads robustness/soak release \
	cmd/holdfast/internal/survey cmd/holdfast/internal/dashboard)
AFTER_REAL    := goredisdriver rueidisdriver
TOOL          := cmd/holdfast
THIRD         := $(addprefix github.com/holdfast-go/holdfast/,bench/tails internal/redistest test/gocronlock otel/example valkeydriver)
NOT_IN_REST   := $(addprefix github.com/holdfast-go/holdfast/,$(TESTS) $(TOOL) interop robustness robustness/trials $(AFTER_REAL)) $(THIRD)
SKIP_SLOW     ?=
LAST          ?= test-third
RACE          ?=
# Nobody debugs the binaries of tests. Without the race detector, what is compiled serves a release, too, which has the
# debugger's information.
RACE_FLAGS    := -race -gcflags=all=-dwarf=false
# By default each process with the race detector sleeps for a second at its end.
export GORACE ?= atexit_sleep_ms=0
# lint vets everything, and these binaries need no symbols: both would cost time with an empty cache.
TEST           = $(if $(RACE),env CGO_ENABLED=1) $(GO) test $(RACE) -vet=off -ldflags=-w
# What is compiled for a check serves the tests, too, if both are compiled with the race detector.
AS_TESTED      = $(if $(RACE),env CGO_ENABLED=1 GOFLAGS='$(GOFLAGS) $(RACE)')

# Memory is cheaper than time, in compilers, linters and tests; what is measured has the default.
FEWER_GCS     := 400

# MAKE_J runs a make with its own number of jobs; without a number, all targets begin at once. (Given just as many jobs as
# targets, make 4.3 may run one after the other.) The -j of this make is left out, since that one would warn of it.
MAKE_J = MAKEFLAGS='$(filter-out -j% --jobserver-%,$(MAKEFLAGS))' $(MAKE) --no-print-directory -j

.DEFAULT_GOAL := help

.PHONY: help
help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The workspace lifts the clients to the newest version that any module asks for;
# the adapters are tested on the oldest one that they promise, too, without the race
# detector. What go commands compile at the same time they compile twice,
# so what all of them need is compiled before.
.PHONY: test
test test-race: export GOGC := $(FEWER_GCS)
test: need-redis ## run all tests, on real servers; not interop, nor the simulation and the trials of robustness
	@$(TEST) -c -o /dev/null ./test/servers
	+@$(MAKE_J) test-first test-real test-rest

.PHONY: test-race
test-race: export RACE := $(RACE_FLAGS)
test-race: test ## test, with the race detector

# The hand-over inside a process is on by default; here the clients of the tests have it
# switched off (internal/testclient).
.PHONY: test-without-hand-over short-without-hand-over
test-without-hand-over short-without-hand-over: export HOLDFAST_TEST_WITHOUT_HAND_OVER := 1
test-without-hand-over: need-redis ## run the tests of test/ with the hand-over inside a process switched off
	$(TEST) -p 1 -timeout 20m $(TESTS:%=./%)

short-without-hand-over: need-redis test-binaries
	@$(TEST_ON) without-hand-over test/servers $(call quoted,$(WAITING_HERE))
	@$(TEST_ON) without-hand-over test/stress 'TestRWStress$$'

.PHONY: test-first test-fake test-real test-rest test-tool-raced test-tool test-third
test-first: ; +@$(MAKE_J) 1 test-fake test-tool-raced test-tool $(LAST)

test-fake:
	@nice -n 10 $(TEST) -p 2 -timeout 15m $(FAKE_TIME:%=./test/%)

test-real: need-redis
	@$(TEST) -p 1 -timeout 15m $(REAL_TIME:%=./test/%) $(AFTER_REAL:%=./%)

test-rest: need-redis
	@$(TEST) -p 2 -timeout 15m $(filter-out $(SKIP_SLOW),$(SLOW_FIRST)) $$($(GO) list $(EVERYTHING) | grep -vxF $(NOT_IN_REST:%=-e %) $(SLOW_FIRST:%=-e %))

# With the race detector each command takes six times as long, so it has a few.
test-tool-raced: need-redis
	@$(if $(RACE),$(TEST) -timeout 15m -run 'TestScripts/(command|limits|nested|waiting)$$' ./$(TOOL))

test-tool: RACE :=
test-tool: need-redis
	@$(TEST) -timeout 15m ./$(TOOL)

test-third: need-redis test-oldest
	@$(TEST) -p 1 -timeout 15m $(THIRD)

# release has no goroutines of its own.
.PHONY: test-release
test-release: RACE :=
test-release: need-redis ; @$(TEST) -timeout 20m ./release

.PHONY: test-oldest $(OLDEST)
test-oldest: ; +@$(MAKE_J) 1 $(OLDEST)
$(OLDEST): RACE :=
$(OLDEST): oldest-%: need-redis
	@echo "== $* with the oldest client that it promises"
	@tools/alone $* $(TEST) -timeout 10m ./...

# Where there is no Chromium, `make test` goes without the browser.
.PHONY: dashboard-test
dashboard-test: need-redis need-chromium ## test the dashboard in a real browser; needs Chromium
	CI=true $(TEST) -count=1 -timeout 5m ./cmd/holdfast/internal/dashboard

.PHONY: dashboard-pictures
dashboard-pictures: need-redis need-chromium ## take the pictures of the dashboard for docs/dashboard.md (a minute)
	@mkdir -p docs/dashboard
	CI=true $(TEST) -count=1 -timeout 5m -run TestPictures ./cmd/holdfast/internal/dashboard -pictures $(CURDIR)/docs/dashboard

.PHONY: interop
interop: need-redis need-jvm ## prove against the real Redisson, two versions of it; needs a JDK and Maven
	cd interop && $(TEST) -count=1 -timeout 15m -parallel 40 ./...

.PHONY: interop-long
interop-long: need-redis need-jvm ## only the soak of interop, for 10,000 hand-overs each way of each kind (half an hour or so)
	cd interop && $(TEST) -count=1 -timeout 4h -v -run TestSoak . -soak.handovers 10000 -soak.faults 2s -soak.limit 30m

# What it takes until holders and waiters know of a fault, beside other libraries. Ours and the
# others are not measured at the same time: those that ask all the time take the processor.
# What the page is to say of the machine: make tails NOTE='The machine had nothing else to do.'
TAILS ?= $(BIN)/tails.jsonl
.PHONY: tails
tails: need-redis ## measure how long waiting takes when something dies, and write docs/robustness.md (40 minutes)
	@mkdir -p $(BIN) && rm -f $(TAILS)
	$(TEST) -count=1 -timeout 2h -parallel 6 ./bench/tails -trials 1 -figures $(TAILS) -skip '/^(redislock|redsync|rueidislock)$$'
	$(TEST) -count=1 -timeout 2h -parallel 4 ./bench/tails -trials 1 -figures $(TAILS) -skip 'Failover|Crowd|/^(mutex|fenced|fair|reader|writer|permits)'
	$(TEST) -count=1 ./bench/tails -run TestPage -figures $(TAILS) -page $(CURDIR)/docs/robustness.md -note "$(NOTE)"

# The race detector does not bear fake time on several processors: see internal/faketime.
SCHEDULES = GOGC=$(FEWER_GCS) $(TEST) -count=1 -cpu 1 ./robustness

.PHONY: robustness robustness-short robustness-long mutants trials trials-short models fuzz fuzz-short soak soak-chart soak-short
robustness: ## run random programs and faults under fake time for a minute, and check what came of them
	$(SCHEDULES) -timeout 10m -for 1m

robustness-short: replay ## the first 150 schedules (a few seconds, after the build), and whether seeds repeat them
	$(SCHEDULES) -timeout 10m -run 'TestSimulation$$' -schedules 150

# The race detector has goroutines run in another order each time.
.PHONY: replay
replay: RACE :=
replay:
	$(SCHEDULES) -timeout 10m -run TestReplay

# After a panic the last line of a log says in which schedule.
LONG = $(BIN)/tests/simulation
robustness-long: ## robustness for 100,000 schedules, a process for each processor (under half an hour on two)
	@mkdir -p $(LONG) && rm -f $(LONG)/* && cd robustness && $(TEST) -c -o $(LONG)/robustness.test . && \
		n=$$(getconf _NPROCESSORS_ONLN) && each=$$(((100000 + n - 1) / n)) && \
		for i in $$(seq $$n); do \
			{ GOGC=1600 $(LONG)/robustness.test -test.run 'TestSimulation$$' -test.cpu 1 -test.timeout 6h -test.v \
				-first $$(((i - 1) * each + 1)) -schedules $$each 2>&1 || touch $(LONG)/failed; } | \
				tee $(LONG)/$$i.log | grep --line-buffered -v -e '^=== ' -e '^ *--- PASS' & \
		done; wait; test ! -e $(LONG)/failed

mutants: need-redis ## break one thing at a time, and see that the suites notice (13 minutes)
	$(GO) run ./robustness/mutants

trials-short: need-redis ## client processes and faults on real servers, each topology once (a minute), and check what came of them
	$(TEST) -count=1 -timeout 10m -parallel 3 -v -run 'TestTrials$$|TestChecks' ./robustness/trials

trials: need-redis ## trials-short again and again, until 10,000 histories of class A have been checked (half an hour or so)
	$(TEST) -count=1 -timeout 3h -parallel 6 -v -run 'TestTrials$$' ./robustness/trials -histories 10000 -keep

models: ## visit every state of three small models of the lock, and show what goes wrong without each rule
	@log=$$(mktemp); status=0; $(TEST) -count=1 -timeout 5m -v ./robustness/protocol >$$log || status=$$?; \
		grep -v -e '^ *--- PASS' -e '^===' $$log; rm -f $$log; exit $$status

# go test shows what a test prints when it is over, the test itself at once.
SOAK = cd robustness/soak && mkdir -p $(BIN)/tests && $(TEST) -c -o $(BIN)/tests/soak.test . && $(BIN)/tests/soak.test -test.v -test.timeout
soak: need-redis ## use every kind of lock for an hour, with faults, and look whether anything grows: make soak FOR=4h SEED=7
	$(SOAK) 0 -test.run TestSoak -for $(or $(FOR),1h) -seed $(or $(SEED),1)

soak-chart: ## draw for docs/robustness.md what make soak has printed: make soak-chart LOG=soak.log
	$(GO) run ./bench/soakchart docs/robustness/soak.svg < $(or $(LOG),$(error say which: make soak-chart LOG=soak.log))

soak-short: need-redis ## soak for two minutes, and 10,000 calls that are cancelled
	$(SOAK) 15m -for 2m -cycles 10000

# Inputs that found something stand in testdata/fuzz, and run with the tests.
fuzz: ## fuzz every target for so long each: make fuzz FOR=10m
	@tools/fuzz $(or $(FOR),1m) -fuzz=.

fuzz-short: ## fuzz with 1,000 inputs each, without a look at what is covered: so it is compiled as the tests are
	@$(if $(RACE),env CGO_ENABLED=1) tools/fuzz 1000x $(RACE) -ldflags=-w

# What a server has a part in: conformance, topologies, TLS, access rights, attacks.
ON_SERVERS := servers topology rights neighbours
ALL_servers := TestConformance TestMutexOptions TestRWMutex TestSemaphore TestL17 TestMultiLock TestRedLock TestL6 TestHoldsOfProcesses \
	TestWritesRefused TestMemoryFull
ALL_topology := TestReplicaAck TestTLS TestCluster TestSentinel
ALL_rights := TestACL TestUser
ALL_neighbours := Test
SHORT_servers := TestConformance TestMutexOptions TestSemaphoreConformance TestWritesRefused
SHORT_topology := TestCluster$$
SHORT_rights := TestACLPing
SHORT_neighbours := TestNeighbour TestTenants TestForgedGrants
WAITING_HERE := TestConformance/^mutex$$ TestConformance/^reader$$ TestHoldsOfProcessesDoNotOverlap
SHORT_DRIVERS := TestServers/^Single$$ TestServers/^Cluster$$/^default$$
# valkeydriver is made of rueidisdriver, so each server tries one of them.
SHORT_ADAPTERS = goredisdriver $(if $(filter valkey-%,$*),valkeydriver,rueidisdriver)
SHORT_ON = $(filter-out redis-$(shell redis-server --version 2>/dev/null | sed -n 's/.* v=\([0-9]*\.[0-9]*\).*/\1/p'),$(SERVERS))
TEST_ON := tools/test-on $(BIN)
quoted = $(foreach pattern,$(1),'$(pattern)')

.PHONY: servers
servers: $(SERVERS:%=on-%) interop-redis-8.0 interop-valkey-8.1 ## run the tests in which a server has a part on each server that the README names (half an hour)

# They mostly wait, so two servers take their turn at once.
.PHONY: servers-short
servers-short: ## run a few of them on each of those servers but the one that all tests run on
	@tools/get-servers $(BIN)/servers $(SHORT_ON)
	+@$(MAKE_J) 2 $(SHORT_ON:%=short-%)

.PHONY: test-binaries
test-binaries:
	@mkdir -p $(BIN)/tests
	@$(TEST) -c -o $(BIN)/tests/ ./test/stress $(ON_SERVERS:%=./test/%) $(ADAPTERS:%=./%)

# Tests start the redis-server that is first on the PATH.
.PHONY: $(SERVERS:%=on-%) $(SERVERS:%=short-%) $(SERVERS:%=server-%) interop-redis-8.0 interop-valkey-8.1
$(SERVERS:%=on-%): on-%: server-% test-binaries
	@$(foreach p,$(ON_SERVERS),$(TEST_ON) $* test/$p $(call quoted,$(ALL_$p)) &&) true
	@PATH="$(BIN)/servers/$*:$$PATH" $(TEST) -count=1 -timeout 15m -p 1 $(ADAPTERS:%=./%) ./internal/redistest

$(SERVERS:%=short-%): short-%: test-binaries server-%
	@$(foreach p,$(ON_SERVERS),$(TEST_ON) $* test/$p $(call quoted,$(SHORT_$p)) &&) true
	@for a in $(SHORT_ADAPTERS); do $(TEST_ON) $* $$a $(call quoted,$(SHORT_DRIVERS)) || exit 1; done

interop-redis-8.0 interop-valkey-8.1: interop-%: server-% need-jvm
	@echo "== interop on $*"
	@cd interop && PATH="$(BIN)/servers/$*:$$PATH" $(TEST) -count=1 -timeout 15m -parallel 6 -run 'TestShared/(standalone|cluster$$)/4' .

$(SERVERS:%=server-%): server-%:
	@tools/get-servers $(BIN)/servers $*

.PHONY: fmt
fmt: $(BIN)/golangci-lint-$(GOLANGCI) ## format the code
	@$< fmt .

.PHONY: fmt-check
fmt-check: $(BIN)/golangci-lint-$(GOLANGCI) ## fail if anything is not formatted
	@$< fmt --diff .

.PHONY: lint
lint: $(BIN)/golangci-lint-$(GOLANGCI) $(BIN)/actionlint-$(ACTIONLINT) ## run the linters on every module, all at once, which is cheaper than one by one
	@$(AS_TESTED) $< run $(MODULES:%=./%/...)
	@$(BIN)/actionlint-$(ACTIONLINT)

.PHONY: mod-check
mod-check: ## fail if a go.mod is not tidy, or a published module does not build on its own
	@for m in $(MODULES); do echo "mod $$m"; tools/alone $$m $(GO) mod tidy -diff || exit 1; done
	@for m in $(BUILT_ALONE); do echo "build $$m"; $(AS_TESTED) tools/alone $$m $(GO) build ./... || exit 1; done
	@if grep '^replace' $(MODULES:%=%/go.mod); then echo "replace lines belong into go.work: go install refuses a module that has any"; exit 1; fi
	@if [ -n "$$(sed -n '/^require/p' go.mod)" ]; then echo "the root module must require nothing"; exit 1; fi

# valkey-go is a fork of rueidis with other names, so its adapter is made of rueidis's.
.PHONY: generate generate-check
generate: ## make valkeydriver/ of rueidisdriver/, and the tables of docs/acl.md of the scripts
	@rm -f valkeydriver/*.go && tools/valkeydriver valkeydriver
	@$(GO) test -count=1 ./internal/rights -run '^TestACLDocument$$' -update

generate-check: ## fail if valkeydriver/ or docs/acl.md is not what make generate makes
	@$(GO) test -count=1 ./internal/rights -run '^TestACLDocument$$'
	@made=$$(mktemp -d) && tools/valkeydriver $$made && diff -r -x go.mod -x go.sum $$made valkeydriver >&2; status=$$?; rm -rf $$made; \
		if [ $$status != 0 ]; then echo "valkeydriver/ is made of rueidisdriver/: run make generate"; exit 1; fi

.PHONY: tidy
tidy: ## run go mod tidy in every module
	@for m in $(MODULES); do tools/alone $$m $(GO) mod tidy || exit 1; done

# api/ has the exported surface of each public package. A change of it is made on
# purpose: by `make api`, in the same commit. Where the files stood is nobody's business; a
# path of another length would not be read. A name in PUBLIC has no slash: no pattern below would match it.
IMPORT = $(patsubst %/driverkit,%/driver/driverkit,$(patsubst %/holdfast,%,github.com/holdfast-go/holdfast/$*))

.PHONY: api $(PUBLIC:%=api-%)
api: $(PUBLIC:%=api-%) ## note down the exported surface as it is
$(PUBLIC:%=api-%): api-%: $(BIN)/apidiff-$(APIDIFF)
	@mkdir -p api && $< -w api/$*.export $(IMPORT)
	@for there in '$(CURDIR)/' "$$($(GO) env GOMODCACHE)/" "$$($(GO) env GOROOT)/"; do \
		LC_ALL=C sed "s|$$there|$$(printf "%$${#there}s" | tr ' ' /)|g" api/$*.export >api/$*.new && mv api/$*.new api/$*.export || exit 1; done

.PHONY: api-check $(PUBLIC:%=api-check-%)
api-check: $(PUBLIC:%=api-check-%) ## fail if the exported surface is not the one noted down
$(PUBLIC:%=api-check-%): api-check-%: $(BIN)/apidiff-$(APIDIFF)
	@changes=$$($(AS_TESTED) $< api/$*.export $(IMPORT)) || exit 1; if [ -n "$$changes" ]; then \
		echo "the exported surface of $* has changed; if that is meant, run make api and commit api/:"; echo "$$changes"; exit 1; fi

.PHONY: bench
bench: need-redis ## compare with other libraries on one server, and write docs/benchmarks.md (8 minutes)
	$(GO) run ./bench --rounds 3 --report docs/benchmarks.md

.PHONY: bench-redisson
bench-redisson: need-redis need-jvm ## bench, with Redisson in a JVM
	$(GO) run ./bench --redisson --rounds 3 --report docs/benchmarks.md

.PHONY: bench-smoke bench-quick bench-check
bench-smoke: ; +@$(MAKE_J) 1 bench-quick bench-check ## see that every benchmark runs, and that no goal is missed by far
bench-quick: need-redis ; $(GO) run ./bench --quick
bench-check: need-redis ; $(GO) run ./bench --check

# How a release is made is in CONTRIBUTING.md. Nothing here pushes, or uploads.
need-version = @if [ -z "$(VERSION)" ]; then echo "say which version: make $@ VERSION=v1.2.3"; exit 1; fi

.PHONY: pin
pin: ## have the modules require each other in VERSION
	$(need-version)
	@$(GO) run ./release pin $(VERSION)

.PHONY: release release-verify release-dry-run image
release: export RELEASE_KEY := $(RELEASE_KEY)
release: ## check the tree, build VERSION into dist/, sign it with RELEASE_KEY, and tag it; pushes nothing
	$(need-version)
	@rm -rf dist
	@$(GO) run ./release make $(VERSION) dist

release-verify: ## verify the signatures of VERSION, downloaded into DIST, and build it again: docs/verify.md
	$(need-version)
	@$(GO) run ./release verify $(VERSION) $(or $(DIST),dist)

release-dry-run: ## build the tree as it is into dist/, as a release would be, unsigned
	@rm -rf dist
	@$(GO) run ./release build $(or $(VERSION),v0.0.0-dry-run) dist

image: ## release-dry-run for Linux alone, for the sake of the image
	@rm -rf dist
	@$(GO) run ./release image $(or $(VERSION),v0.0.0-dry-run) dist

.PHONY: pictures
pictures: need-redis ## take the pictures of the terminal in docs/looks anew; needs tmux
	$(GO) run ./test/pictures docs/looks

.PHONY: demo
demo: ## show what it does, without a Redis server
	$(GO) run ./cmd/holdfast demo

.PHONY: ci
ci: export RACE := $(RACE_FLAGS)
ci: export GOGC := $(FEWER_GCS)
ci: need-chromium need-redis need-jvm ## everything that must pass before a change lands
	+@$(MAKE_J) ci-tests ci-static
	@GOGC=100 $(MAKE) --no-print-directory bench-check

# The tests leave a fifth of two processors idle; ci-static uses that, at low priority.
.PHONY: ci-tests ci-static
ci-tests:
	+@$(MAKE_J) 1 mod-check generate-check api-check
	@$(MAKE) --no-print-directory test SKIP_SLOW=github.com/holdfast-go/holdfast/release LAST=
	+@$(MAKE_J) --output-sync=line ci-servers ci-faults

ci-static:
	+@nice -n 15 env $(MAKE_J) 1 fmt-check lint
	+@nice -n 15 env $(MAKE_J) 1 test-release
	@nice -n 15 $(GO) build -o /dev/null ./bench

# ci-servers and ci-faults run beside each other: more at once is too much for two cores, but for soak at the end, which
# mostly waits. interop takes longest, so it begins as soon as trials and fuzzing are through, beside what is left of
# ci-servers. With the race detector the tests have run all that is in the library; simulation, trials, fuzzing, interop
# and soak run without it, in half of the processor's time or less.
.PHONY: ci-servers ci-faults ci-soak
ci-servers: ; +@$(MAKE_J) 1 short-without-hand-over servers-short && $(MAKE_J) 1 RACE= robustness-short && $(MAKE_J) test-third ci-soak
ci-faults: need-redis ; +@$(MAKE_J) 1 RACE= trials-short fuzz-short interop
ci-soak: ; +@$(MAKE_J) 1 RACE= soak-short bench-quick

.PHONY: vuln
vuln: $(BIN)/govulncheck-$(GOVULNCHECK) ## look for known vulnerabilities; needs the internet, and says so
	@tools/vuln $< $(MODULES)

.PHONY: need-redis
need-redis:
	@tools/need-redis

.PHONY: need-jvm
need-jvm:
	@tools/need-jvm

.PHONY: need-chromium
need-chromium:
	@tools/need-chromium

$(BIN)/golangci-lint-$(GOLANGCI):
	@echo "installing golangci-lint $(GOLANGCI)"
	@GOBIN=$(BIN) GOWORK=off $(GO) install -ldflags=-w github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	@mv $(BIN)/golangci-lint $@

$(BIN)/govulncheck-$(GOVULNCHECK):
	@echo "installing govulncheck $(GOVULNCHECK)"
	@GOBIN=$(BIN) GOWORK=off $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK)
	@mv $(BIN)/govulncheck $@

$(BIN)/actionlint-$(ACTIONLINT):
	@echo "installing actionlint $(ACTIONLINT)"
	@GOBIN=$(BIN) GOWORK=off $(GO) install -ldflags=-w github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT)
	@mv $(BIN)/actionlint $@

$(BIN)/apidiff-$(APIDIFF):
	@echo "installing apidiff $(APIDIFF)"
	@GOBIN=$(BIN) GOWORK=off $(GO) install golang.org/x/exp/cmd/apidiff@$(APIDIFF)
	@mv $(BIN)/apidiff $@

.PHONY: clean
clean: ## remove what make has installed and built here
	rm -rf $(BIN) dist
