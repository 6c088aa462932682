# `make help` lists what there is. Everything built lands in .cache/, which git ignores.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

CACHE := $(CURDIR)/.cache
BIN := $(CACHE)/bin

# The control plane for tests and demo: the user's own, else the one that hack/controlplane gets.
# CONTROLPLANE and CONTROLPLANE_MIRROR say how, from the environment or the command line.
OWN_ASSETS := $(KUBEBUILDER_ASSETS)
export KUBEBUILDER_ASSETS := $(or $(OWN_ASSETS),$(CACHE)/controlplane)
export CONTROLPLANE CONTROLPLANE_MIRROR

# The newest version whose archives have a known sum: hack/lint/sums.
GOLANGCI_LINT_VERSION := v2.14.0
GOLANGCI_LINT := $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION)

GOVULNCHECK_VERSION := v1.8.0

# The tools whose versions are in hack/tools/go.mod.
GOTESTSUM := go tool -modfile=$(CURDIR)/hack/tools/go.mod gotestsum

# What the tests of the window's page need besides Chromium. The page itself has none of it.
WINDOW_PACKAGES := axe-core@4.14.1 typescript@7.0.2

# Modules of their own, besides this one, that are tested and linted along.
MODULES := examples/hello hack/controlplane/fetch test/alerts test/bench test/chaos test/helm test/starter test/window

# The starter is a module that requires a release of this one: here this one takes its
# place. test/starter tests it.
STARTER := examples/starter
STARTER_WORK := $(CURDIR)/hack/starter/go.work

# How the demo is built. Its packages are compiled as those of the tests without -race and of the linter are, so that
# each is compiled once; the linker leaves out what debuggers read.
DEMO_BUILD := GOGC=$${GOGC:-400} go build -ldflags='-s -w'

# How the other modules are tested: without -race, as the tests of this module look for the library's races, and
# without vet, which is part of golangci-lint. So they compile what lint has compiled.
SATELLITE_FLAGS := -vet=off

# The packages whose tests need a control plane. SERIAL and SHARED run on the one that
# hack/withcluster starts: SERIAL one at a time and first, since their kubelet and scheduler run
# every Pod of the cluster. OWN configure theirs, end it, or want no kube-controller-manager. SLOW
# belong to test-all, GATES to gates, without -race. test/suite fails if a package is missing here.
# The longest comes first.
SHARED := ./test/conformance ./test/security ./test/crds ./test/uninstall ./test/dev ./examples/tempnamespace ./examples/echoserver \
	./examples/appstack ./examples/bluegreen ./examples/configsync ./examples/serviceperpod ./examples/teams
SERIAL := ./examples/catset ./test/rollouts
OWN := ./testkit ./test/docs ./test/explain ./test/manifests ./internal/apischema
SHARED_CRDS := $(wildcard examples/*/crd.yaml) test/conformance/testdata/crds.yaml test/rollouts/testdata/crds.yaml test/uninstall/testdata
SLOW := ./internal/testing/fakeapi ./internal/testing/kubelet ./internal/testing/plane ./test/related ./test/rotation ./test/shards ./test/soak ./test/upgrade
GATES := ./test/gates

# Those that test-all runs with -race, too: where the library runs, and much happens at once.
RACED = $(filter-out ./hack/% ./test/conformance/page ./test/quick ./test/rooms ./test/suite,$(ALONE)) ./test/conformance ./test/security ./testkit

# The packages of the module whose tests need no control plane.
ALONE = $(shell go list ./... | sed 's,^github.com/roperator/roperator,.,' | grep -v -x -F -e . $(foreach p,$(SHARED) $(SERIAL) $(OWN) $(SLOW) $(GATES),-e $(p)))

# Packages whose tests need no API server, whichever are there.
UNIT = $(shell go list ./... | grep -v -E '/roperator/(testkit|test|examples|hack)(/|$$)')

TESTFLAGS ?=
RUN ?=
FUZZTIME ?= 60s
KEEP ?=
WINDOW ?=
N ?= 1000
ROUNDS ?= 5
PROGRAMS ?=
VARIANTS ?=
SINCE ?= $(shell git describe --tags --abbrev=0 2>/dev/null || echo HEAD)
VERSIONS ?= 1.34 1.35 1.36 1.37
SEEDS ?= 2000
FIRST ?= 1
OBJECTS ?= 2000,20000,200000
SECRETS ?= 20000
CHANGES ?= 2000
SEED ?=
MINUTES ?=
OPERATORS ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

# With cold caches, what downloads is compiled first: get.sh and the demo's programs, side by side, would
# both compile the packages that they have in common.
.PHONY: demo
demo: ## A local cluster and the echoserver operator at work, under a minute (KEEP=1 leaves it running; WINDOW=1 opens its window, until Ctrl-C)
	@mkdir -p $(BIN)
	@$(if $(OWN_ASSETS),,[ -x $(CACHE)/controlplane/kwok ] || (cd hack/controlplane/fetch && $(DEMO_BUILD) -o $(BIN)/fetch .) || true)
	@$(MAKE) --no-print-directory -j2 OWN_ASSETS='$(OWN_ASSETS)' demo-controlplane demo-programs
	@exec $(BIN)/demo --with-parent --operator=$(BIN)/echoserver --dir=$(CACHE)/demo $(if $(filter-out 0 false no,$(KEEP)),--keep) $(if $(filter-out 0 false no,$(WINDOW)),--window)

# The demo itself needs no kubectl.
.PHONY: demo-controlplane
demo-controlplane: PROGRAMS = $(if $(filter-out 0 false no,$(KEEP) $(WINDOW)),,etcd kube-apiserver kube-controller-manager kube-scheduler kwok)
demo-controlplane: controlplane

# In one call, and while the control plane is being downloaded.
.PHONY: demo-programs
demo-programs:
	@mkdir -p $(BIN)
	@echo "demo: building the operator and the demo (a minute with cold caches)"
	@$(DEMO_BUILD) -o $(BIN)/ ./examples/echoserver ./hack/demo

# The linker leaves out what debuggers read. Garbage is collected less often,
# in control planes too: that was a tenth of the CPU time of the conformance scenarios.
GO_TEST := GOGC=$${GOGC:-400} go test -vet=off -ldflags="-s -w" -timeout 30m
WITH_CLUSTER := GOGC=$${GOGC:-400} $(BIN)/withcluster $(SHARED_CRDS:%=-crd %)

# Tests packages of ALONE, SERIAL, SHARED and OWN, with these flags: those on the shared control plane beside the others, since
# they mostly wait. Everything is compiled before, as both would compile the packages that they have in common.
define tests
	@echo "test: compiling $(words $(2)) packages $(1)"
	@go list -export -test $(1) $(2) >/dev/null
	@mkdir -p $(BIN) && go build -o $(BIN)/withcluster ./hack/withcluster
	@$(MAKE) --no-print-directory -j2 test-shared test-others FLAGS='$(1) $(TESTFLAGS)' THESE='$(2)'
endef

.PHONY: test
test: controlplane ## What tells whether a change breaks a promise, on a real API server (TESTFLAGS='-run=Name')
	$(call tests,,$(ALONE) $(SERIAL) $(SHARED) $(OWN))

# Those of SHARED mostly wait for the API server: three run at once.
.PHONY: test-shared
test-shared:
	@$(WITH_CLUSTER) sh -ec '$(if $(filter $(SERIAL),$(THESE)),$(GO_TEST) -p 1 $(FLAGS) $(filter $(SERIAL),$(THESE)); )$(GO_TEST) -p 3 $(FLAGS) $(filter $(SHARED),$(THESE))'

# OWN comes first, since it mostly waits.
.PHONY: test-others
test-others:
	@$(GO_TEST) -p 3 $(FLAGS) $(filter $(OWN),$(THESE)) $(filter $(ALONE),$(THESE))

.PHONY: test-all
test-all: test test-rest mutants ## test, and also: -race, more seeds, soak, chaos, shards, rotation, upgrade, Helm, gonew, benchmarks, mutants
	SIM_SEEDS=600 STRESS_COUNT=6000 $(GO_TEST) -run '^Test(Seeds|Histories)$$' ./test/sim

# What .ci/run runs besides test. With -race, searches make a tenth of their runs (internal/testing/budget).
.PHONY: test-rest
test-rest: export ROPERATOR_TEST_ALL = 1
test-rest: controlplane
	$(call tests,-race,$(RACED))
	@$(MAKE) --no-print-directory -j2 test-slow test-modules

.PHONY: test-slow
test-slow:
	@$(GO_TEST) -race -p 1 $(TESTFLAGS) $(SLOW)

.PHONY: test-modules
test-modules:
	@set -e; for module in $(MODULES); do echo "test: $$module"; (cd $$module && go test $(SATELLITE_FLAGS) -timeout 30m $(TESTFLAGS) ./...); done

.PHONY: test-unit
test-unit: ## The tests that need no API server, in seconds
	env -u KUBEBUILDER_ASSETS go test -short -timeout 5m $(TESTFLAGS) $(UNIT)

.PHONY: test-quick
test-quick: controlplane test-unit ## What to run at each save: test-unit, and the 20 scenarios that tell most, in a minute with warm caches
	$(GOTESTSUM) -f testname -- -count=1 -timeout 5m -run "^($$(sed -n 's/^\(Test[^:]*\):.*/\1/p' test/quick/scenarios.txt | paste -sd '|' -))\$$" $(TESTFLAGS) ./test/conformance

.PHONY: window-tools
window-tools: ## What window-test needs, into .cache, by npm; and Chromium, as root by apt-get
	@hack/window/tools.sh $(CACHE)/window $(WINDOW_PACKAGES)

.PHONY: window-test
window-test: controlplane window-tools ## The window's page in a browser, and its types
	cd test/window && WINDOW_BROWSER=required go test $(SATELLITE_FLAGS) -count=1 -timeout 30m $(TESTFLAGS) ./...

.PHONY: conformance
conformance: controlplane ## The conformance scenarios, a line each (RUN=C10 for one, TESTFLAGS=-race)
	@grep -qE '^func Test.*$(RUN)_' test/conformance/*_test.go || { echo "conformance: no scenario is named $(RUN)"; exit 1; }
	$(GOTESTSUM) -f testname -- -count=1 -timeout 30m $(if $(RUN),-run '$(RUN)_') $(TESTFLAGS) ./test/conformance

.PHONY: test-versions
test-versions: ## The conformance scenarios on other versions of Kubernetes (VERSIONS="1.34 1.35 1.36 1.37", or patches), each downloaded, or else built in 5 minutes
	hack/controlplane/versions.sh $(CACHE)/versions $(VERSIONS)

.PHONY: histories
histories: controlplane ## Random histories of children on a real API server, for MINUTES (60), from seed FIRST (1) on
	HISTORIES_MINUTES=$(or $(MINUTES),60) HISTORIES_SEED=$(FIRST) go test -count=1 -v -timeout 24h -run '^TestC170_Histories$$' $(TESTFLAGS) ./test/conformance | grep -v -E '^ *(===|--- PASS|time=)'

.PHONY: stress
stress: ## COUNT (20000) short histories full of races against an API server in the process, from seed FIRST (1) on
	@STRESS_COUNT=$(or $(COUNT),20000) STRESS_FIRST=$(or $(FIRST),1) go test -count=1 -timeout 24h -v -run '^TestHistories$$' $(TESTFLAGS) ./test/sim | grep -v -E '^ *(===|--- PASS|PASS|ok)'

.PHONY: sim
sim: ## SEEDS (2000) simulated runs full of faults, from seed FIRST (1) on
	@SIM_SEEDS=$(SEEDS) SIM_FIRST=$(FIRST) go test -count=1 -timeout 60m -v -run '^TestSeeds$$' $(TESTFLAGS) ./test/sim | grep -v -E '^ *(===|--- PASS)'

.PHONY: mutants
mutants: ## The simulation must find a violation when a safeguard of the engine is missing
	go run ./hack/mutants

.PHONY: bench
bench: controlplane ## This library beside controller-runtime and plain client-go, N (1000) parents, ROUNDS (5) runs each (VARIANTS=limit,roperator PHASES=restart)
	@mkdir -p $(CACHE)/bench
	cd test/bench && go run . -n $(N) -rounds $(ROUNDS) -variants '$(VARIANTS)' -phases '$(PHASES)' -singles $$(( (2000 + $(ROUNDS) - 1) / $(ROUNDS) )) -out $(CACHE)/bench/n$(N).json

.PHONY: bench-scale
bench-scale: ## Cost per pass with OBJECTS (2000,20000,200000) in the store, ROUNDS (5) each, on an API server in the process; a CPU profile in .cache (WITH=related,gates,roll)
	@mkdir -p $(CACHE)
	@SCALE_OBJECTS=$(OBJECTS) SCALE_WITH=$(WITH) SCALE_ROUNDS=$(ROUNDS) SCALE_PROFILE=$(CACHE)/bench-scale.pprof go test -count=1 -timeout 60m -v -run '^TestScale$$' $(TESTFLAGS) ./test/scale | grep -v -E '^ *(===|--- PASS|PASS|ok)'

.PHONY: bench-related
bench-related: controlplane ## Memory and latency of related objects among SECRETS (20000) that nobody refers to, ROUNDS (5) and CHANGES (2000) of each, on a real API server
	@RELATED_SECRETS=$(SECRETS) RELATED_ROUNDS=$(ROUNDS) RELATED_CHANGES=$(CHANGES) go test -count=1 -timeout 2h -v -run '^Test(Heap|Latency)$$' $(TESTFLAGS) ./test/related | grep -v -E '^ *(===|--- PASS|PASS|ok)'

.PHONY: chaos
chaos: controlplane ## The operator among failing connections, API servers and replicas, for MINUTES (5); SEED repeats the faults
	@cd test/chaos && CHAOS_MINUTES=$(or $(MINUTES),5) CHAOS_SEED=$(SEED) go test -count=1 -timeout 0 -v -run '^TestChaos$$' $(TESTFLAGS) . | grep -v -E '^ *(===|--- PASS|PASS|ok)'

.PHONY: soak
soak: controlplane ## Parents come and go for MINUTES (30); what the process holds must end where it began (OPERATORS=3 in one process)
	@SOAK_MINUTES=$(or $(MINUTES),30) SOAK_OPERATORS=$(OPERATORS) go test -count=1 -timeout 0 -v -run '^TestSoak$$' $(TESTFLAGS) ./test/soak | grep -v -E '^ *(===|--- PASS|PASS|ok)'

.PHONY: fuzz
fuzz: ## Every fuzz test, each for FUZZTIME (60s)
	@for package in $$(go list ./...); do \
		for name in $$(go test -short -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "fuzz: $$package $$name for $(FUZZTIME)"; \
			go test -short -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

.PHONY: gates
gates: controlplane ## What the library must not have more of, by tables: lines, fields of large structs, allocations per parent
	go run ./hack/state
	go test -count=1 -vet=off -timeout 15m $(TESTFLAGS) $(GATES)

.PHONY: gates-update
gates-update: controlplane ## Both tables of gates anew; the commit's message gives the reason
	go run ./hack/state -update
	GATES_UPDATE=true go test -count=1 -vet=off -timeout 15m $(GATES)

.PHONY: lint
lint: $(GOLANGCI_LINT) ## gofmt and golangci-lint, of which go vet is a part
	@unformatted=$$(git ls-files --cached --others --exclude-standard '*.go' | xargs gofmt -l); \
		if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(GOLANGCI_LINT) run ./...
	@set -e; for module in $(MODULES); do echo "lint: $$module"; (cd $$module && $(GOLANGCI_LINT) run ./...); done
	@echo "lint: $(STARTER)"; cd $(STARTER) && export GOWORK=$(STARTER_WORK) && $(GOLANGCI_LINT) run ./...

.PHONY: linter
linter: $(GOLANGCI_LINT) ## golangci-lint: downloaded, or else built in 3 minutes

$(GOLANGCI_LINT):
	@hack/lint/get.sh $(GOLANGCI_LINT_VERSION) $@

.PHONY: generate
generate: controlplane ## The generated code and CustomResourceDefinitions, from a live API server and from Go types
	go generate ./...
	@set -e; for module in $(MODULES); do (cd $$module && go generate ./...); done

.PHONY: check-generated
check-generated: generate ## Fails if generate changes anything that is committed
	@changed=$$(git status --porcelain); \
		if [ -n "$$changed" ]; then echo "make generate changes, or there is something uncommitted:"; echo "$$changed"; git --no-pager diff; exit 1; fi

.PHONY: api
api: ## What has changed in the public API since the last tag (SINCE=commit); fails if programs may break
	@hack/api/since.sh $(SINCE)

.PHONY: vulncheck
vulncheck: ## Known vulnerabilities in what is called, by govulncheck; needs vuln.go.dev
	@go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./... || \
		{ echo "vulncheck: see above; if it says that vuln.go.dev can't be reached, run it where it can, or name a mirror by GOVULNDB=https://… (go.dev/doc/security/vuln/database)"; exit 1; }

.PHONY: controlplane
controlplane: ## etcd, kube-apiserver, …: only if missing or outdated, downloaded, or else built in 5 minutes (CONTROLPLANE=download, build)
ifeq ($(OWN_ASSETS),)
	@hack/controlplane/get.sh $(CACHE)/controlplane $(PROGRAMS)
else
	@for name in etcd kube-apiserver; do \
		[ -x "$$KUBEBUILDER_ASSETS/$$name" ] || { echo "controlplane: $$name isn't in KUBEBUILDER_ASSETS=$$KUBEBUILDER_ASSETS; unset it to have it downloaded or built"; exit 1; }; \
	done
endif

.PHONY: clean
clean: ## Remove what was built, the control plane included
	rm -rf $(CACHE)
