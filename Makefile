# Each target walks every module of the repository. `make test` is the test command of
# the README.

# A pipe fails when what it filters does.
SHELL       := bash
.SHELLFLAGS := -o pipefail -c

GO      ?= go
MODULES := $(patsubst %/,%,$(sort $(dir $(wildcard go.mod cmd/*/go.mod adapter/*/go.mod bench/go.mod examples/go.mod))))
# The race detector needs a C compiler.
RACE    := $(if $(shell command -v $$($(GO) env CC) 2>/dev/null),-race,)

.PHONY: build test lint fmt fuzz shell-sweep tidy api sim sim-mutants session-race crash crash-mutants postgres postgres-mutants

build: ## the binary, ./outlive
	$(GO) build -o outlive ./cmd/outlive

test: ## all tests of all modules, under the race detector where there is a C compiler
	@set -e; for m in $(MODULES); do \
		echo "$(GO) test $(RACE) -shuffle=on ./...  # in $$m"; \
		(cd $$m && $(GO) test $(RACE) -shuffle=on ./...); \
	done

SEEDS ?= 2000
sim: ## histories of the whole runtime on fake time, with crashes and lost answers; SEEDS=N
	$(GO) test ./outlivetest -run TestSim -count=1 -timeout 0 -sim.seeds $(SEEDS) -v | grep -v -e '^=== ' -e '--- PASS: TestSim/'

MUTANTS := mutant_nofence mutant_noretire mutant_noaudit
sim-mutants: ## a safeguard less, one after the other: each must be noticed
	@for m in $(MUTANTS); do \
		if $(GO) test -tags $$m ./outlivetest -run 'TestSim|TestScenarios' -count=1 -sim.seeds 100 >/dev/null 2>&1; \
		then echo "$$m: NOT NOTICED"; exit 1; else echo "$$m: noticed"; fi; \
	done

session-race: ## two processes start turns of one session at the same instant; N=200 rounds of each policy
	$(GO) test ./outlivetest -run TestSessionByTwoProcesses -count=1 -timeout 0 -session.rounds $(or $(N),200) -v | grep -v -e '^=== '

lint: ## golangci-lint must be in PATH; .ci/run says which version
	@set -e; for m in $(MODULES); do echo "golangci-lint run  # in $$m"; (cd $$m && golangci-lint run ./...); done

fmt: ## gofumpt must be in PATH; .ci/run says which version
	gofumpt -w .

fuzz: ## every fuzz target of the pure packages; FUZZTIME=1m for longer
	@.ci/fuzz

shell-sweep: ## command backends at length: every failpoint 30 times, the race of exit and expiry 500 times, fuzzing 60 s, 1.4 GB of output
	SHELLTEST_REPEAT=10 SHELL_SOAK=300 $(GO) test -timeout 60m -count=1 ./shell/...
	cd cmd/outlive && BIG_OUTPUT=1400000000 $(GO) test -count=1 -v -run TestBigOutput .
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' shell | sed 's|:func | |' | while read -r file target; do \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime 60s -parallel 2 "./$${file%/*}" || exit 1; \
	done

tidy: ## go.mod and go.sum of every module
	@set -e; for m in $(MODULES); do (cd $$m && $(GO) mod tidy); done

api: ## accept a wanted change of the exported API or the layer table
	$(GO) test ./internal/archtest -update

crash: ## kill real processes and check what is left; N=200 rounds, SEED=... and ROUND=... repeat
	@cd cmd/outlive && $(GO) run ./internal/crash -n $(or $(N),200) -seed $(or $(SEED),0) -round '$(ROUND)' -tags '$(TAGS)'

crash-mutants: ## take out one safeguard at a time: the crash harness must report violations
	@cd cmd/outlive && $(GO) run ./internal/crash -mutants -seed $(or $(SEED),0)

postgres: ## kill, stop and restart PostgreSQL under the load of two instances; N=100 times each
	$(GO) test ./store/postgres -run 'TestServerDies|TestCrash' -count=1 -timeout 0 -postgres.rounds $(or $(N),100) -v | grep -v -e '^=== '

POSTGRES_MUTANTS := mutant_nolock mutant_noguard mutant_noresolve
postgres-mutants: ## take out one safeguard of the PostgreSQL store at a time: its tests must notice
	@for m in $(POSTGRES_MUTANTS); do \
		if $(GO) test -tags $$m ./store/postgres -run 'TestStore/(LostUpdate|Peers)|TestNameTakenOnce|TestAnswerLost' -count=1 >/dev/null 2>&1; \
		then echo "$$m: NOT NOTICED"; exit 1; else echo "$$m: noticed"; fi; \
	done

nested: ## kill a parent of background commands and check what becomes of their notices; N=200, SEED=... and ROUND=... repeat
	@$(GO) run ./examples/nested/internal/kill -n $(or $(N),200) -seed $(or $(SEED),0) -round $(or $(ROUND),0) -tags '$(TAGS)'

nested-mutants: ## take out one safeguard at a time: the nested harness must report violations
	@$(GO) run ./examples/nested/internal/kill -mutants -seed $(or $(SEED),0)
