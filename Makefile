# `make help` lists the targets.

GO     ?= go
VERGE  := dist/verge
# The race detector needs a C compiler; without one the same tests run without it.
RACE   := $(shell test "$$(env -u CGO_ENABLED $(GO) env CGO_ENABLED)" = 1 && \
	command -v "$$($(GO) env CC)" >/dev/null && echo -race)
# wazero's compiler takes eight times as long with it. The packages without it share
# no data; the rest of wazero needs it, or else the instances of sync.Map that it
# shares with other packages lose it as well.
RACE   += $(if $(RACE),$(foreach p,engine/wazevo/backend/... engine/wazevo/frontend engine/wazevo/ssa leb128 wasm/binary,-gcflags=github.com/tetratelabs/wazero/internal/$p=-race=false))

# Packages are compiled without C and without the paths of this machine, as in a release, so the command, the checks and
# the tests share what they compile. Only the race detector needs its own.
export CGO_ENABLED := 0
export GOFLAGS     := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0
GORELEASER  := github.com/goreleaser/goreleaser/v2@v2.16.0
BENCHSTAT   := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

.DEFAULT_GOAL := help
.PHONY: help run test check-all mutants simulate bench bench-peers scale build command wasm module release release-dry check generate fuzz clean \
	check-build check-vet check-lint check-plain check-vulnerabilities check-generated

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The module takes two fifths of a first build, and dev uses it only with --engine wasm. If an earlier build embedded one
# in the binary, it is built again, because it must not be older than the command.
MODULE := cmd/verge/internal/cli/module/verge.wasm.gz
run: $(if $(wildcard $(MODULE)),build,command) ## run everything on this machine: service, demo site, webhook inbox
	@$(VERGE) dev

# The short tests walk every promise. VERGE_LONG=1 adds the cases that testharness/long/table.go lists, and the
# race detector. The slowest packages begin first, together with packages that mostly wait for servers and
# leases, so the short run has more of them at work than processors. GOGC saves most collections of small heaps.
# The short run leaves out packages that have not changed since they last passed.
#
# The packages of DRIVEN drive processes, browsers and workerd. Under the race detector they need an hour, and it
# would see only their own process. So it sees the packages that those processes consist of, and the conformance
# suite on one engine, without its longest tests that send one request at a time (ONEBYONE). All parts at the same
# time load the machine so much that browsers stop responding. Longfellow's proofs take ten times as long with the
# detector, which sees its short tests. A simulated history runs one coroutine at a time, so the detector would see
# nothing in it. Neither would it in packages without goroutines: CONCURRENT finds those with some. The tests of
# SERIAL have goroutines only to run side by side, or for a server that other packages test with the detector. Many
# take up to forty times as long with it. The driven tests leave the processors idle in part, so the packages for
# the detector are compiled at the same time, at the lowest priority. The long run does not vet, because make check
# does.
DRIVEN := ./testharness/conformance ./cmd/verge/internal/cli ./cmd/verge/internal/demo ./edge/workers \
	./edge/internal/longfellow \
	./testharness/internal/simulation
SERIAL := ./testharness/mutants ./testharness/npmwallet ./testharness/clients ./testharness/examples ./testharness/corpus \
	./core ./core/internal/mdoc ./core/internal/console ./core/internal/hosted/pages ./core/internal/troubleshooting \
	./edge/deploy ./wasm/internal/loopopt ./wasm/postlink
ONEBYONE := ^Test(Engines|Callback.*|URLLengths|StartFields|WalletMatrix|Method_Courier|MethodEstimator|StoreFaults|$\
	NoSecretIsTold|GETShows|Token_ChangedBits|MutatedTokens|ReconcileTable)$$
SLOW   := ./kvadapters/redis ./kvadapters/kvcheck ./testharness/invariants ./edge/wasmhost ./edge/internal/server \
	./kvadapters/postgres
CONCURRENT := ^\s*go [a-zA-Z]|\.Go\(|\.Parallel\(\)|RunParallel|NewServer|net\.Listen|AfterFunc|testharness"|workerd\.|wasmhost
PACKAGES = $(patsubst github.com/verge-id/verge/%,./%,$(shell $(GO) list ./...))
RACED    = $(sort $(filter-out $(DRIVEN) $(SERIAL) $(SLOW),$(filter $(PACKAGES),$(patsubst %/,./%,$(dir \
	$(shell grep -rlE --include='*.go' '$(CONCURRENT)' */))))))
OTHERS   = $(filter-out $(DRIVEN) $(SLOW) $(RACED),$(PACKAGES))
TEST    = GOGC=$(if $(VERGE_LONG),200,800) $(GO) run ./testharness/internal/progress
# DETECT runs tests with the race detector. Programs that they build are compiled without it.
DETECT  = $(TEST) $(if $(RACE),env CGO_ENABLED=1) $(GO) test -json $(if $(RACE),$(RACE) -exec 'env CGO_ENABLED=0')
test: ## run the tests in short, or with VERGE_LONG=1 in full. A missing program says SKIP
ifdef VERGE_LONG
	@nice -n 19 env $(if $(RACE),CGO_ENABLED=1) $(GO) list -export -test $(RACE) $(SLOW) $(RACED) >/dev/null 2>&1 & \
	code=0; $(TEST) $(GO) test -json -vet=off -count=1 -p 3 -timeout 60m $(DRIVEN) $(OTHERS) || code=1; \
	$(DETECT) -vet=off -count=1 -p 3 -timeout 60m $(SLOW) $(RACED) || code=1; \
	$(DETECT) -vet=off -count=1 -short -parallel 4 -skip '$(ONEBYONE)' -timeout 30m ./testharness/conformance \
		./edge/internal/longfellow || code=1; exit $$code
else
	@$(TEST) $(GO) test -json -short -p 6 -parallel 4 -timeout 30m $(DRIVEN) $(SLOW) ./...
endif

mutants: ## break the code, one small way at a time, and check that a test fails each time
	$(GO) run ./testharness/mutants

# SEEDS is the number of histories, and SEED repeats one of them and prints it.
SEEDS ?= 2000
simulate: ## run random histories of faults and changes over the real core: SEEDS=n, or SEED=n to repeat one
	@$(GO) run ./testharness/internal/simulation/simulate $(if $(SEED),-replay $(SEED),-seeds $(SEEDS))

# The peers are installed outside the repository. A peer that cannot be installed is skipped with the reason.
PEERS ?= $(or $(TMPDIR),/tmp)/verge-peers
bench-peers: ## measure alternatives to Verge in the same run, installed into PEERS
	@mkdir -p $(PEERS) dist
	-npm install --prefix $(PEERS) --no-audit --no-fund --ignore-scripts oidc-provider@9.13.3
	VERGE_PEERS=$(PEERS) $(GO) test ./testharness/bench -run '^$$' -bench Peers -v -count 6 -timeout 1h \
		| tee dist/bench-peers.txt
	@! grep -q '^FAIL' dist/bench-peers.txt

# BENCH is a pattern of names, for example: make bench BENCH=Endpoint/validate. VERGE_LONG=1 adds a large publisher to
# the console. benchstat compares two runs: go run $(BENCHSTAT) before.txt after.txt
BENCH ?= .
bench: build ## measure against a bare net/http server, and guests against the native core, in one run
	@mkdir -p dist
	$(GO) test ./testharness/bench -run '^$$' -bench '$(BENCH)' -count 6 -timeout 3h $(if $(VERGE_LONG),,-short) \
		| tee dist/bench.txt
	@! grep -q '^FAIL' dist/bench.txt
	$(GO) run $(BENCHSTAT) dist/bench.txt

# SESSIONS is the number of sessions of each part, and USERS the number of concurrent ones. The costs of claims are measured
# at each number of TIMERS. The tables are for the page "Capacity" of cmd/verge/OPERATING.md.
SESSIONS  ?= 2000
STORES    ?= memory,bolt,redis,postgres
INSTANCES ?= 1,2,4
TIMERS    ?= 1000,100000
USERS     ?= 16
scale: ## measure the cost of a session on each store, and calculate the first bottleneck: SESSIONS=n STORES=redis
	@mkdir -p dist
	$(GO) test ./testharness/scale -run '^TestScale$$' -count 1 -timeout 3h -v -sessions $(SESSIONS) -stores $(STORES) \
		-instances $(INSTANCES) -timers $(TIMERS) -users $(USERS) -out $(CURDIR)/dist/scale.md
	@cat dist/scale.md

# step prints a name, the seconds every 10 s while the command runs, and its output if it fails. The first build
# takes minutes.
define step
@printf '  %s' $(1); begin=$$(date +%s); \
( while sleep 10 >/dev/null 2>&1; do printf ' %s s' $$(( $$(date +%s) - begin )); done ) & ticks=$$!; \
output=$$( $(2) 2>&1 ); code=$$?; kill $$ticks 2>/dev/null; \
if [ $$code = 0 ]; then echo " done in $$(( $$(date +%s) - begin )) s"; else printf ' failed\n%s\n' "$$output"; fi; exit $$code
endef

build: module command ## build the static binary into dist/, with the module in it

# Only the binary, with the module in its folder if one was built.
command:
	@mkdir -p dist
	$(call step,'Building the command ...',$(GO) build -ldflags="-s -w" -o $(VERGE) ./cmd/verge)

wasm: module ## build the core as a WebAssembly module into dist/, and print its size, by kind of method
	@$(GO) run ./cmd/generate/weigh dist/verge.wasm

# Only the module. The target wasm also builds it for each kind of method.
module:
	@mkdir -p dist
	$(call step,'Building the WebAssembly module ...',GOOS=wasip1 GOARCH=wasm $(GO) build -buildmode=c-shared -ldflags="-s -w" $(shell cat wasm/postlink/gcflags.txt) -o dist/verge.wasm ./wasm/guest)
	$(call step,'Optimizing the module ...',$(GO) run ./cmd/generate/postlink dist/verge.wasm)
	@gzip -9 -n -c dist/verge.wasm > $(MODULE)
	@printf '  The module has %s bytes, %s with gzip\n' "$$(wc -c < dist/verge.wasm | tr -d ' ')" "$$(wc -c < $(MODULE) | tr -d ' ')"

release: ## build, sign and upload the release of the tag, as a draft. CONTRIBUTING.md has the steps
	.ci/release $(GO) run $(GORELEASER)

release-dry: ## the same with a temporary key and without a tag or upload, and test the archive
	.ci/release --dry-run $(GO) run $(GORELEASER)

check-all: check ## run the same as CI: check, then all tests in full
	VERGE_LONG=1 $(MAKE) test

check: check-build check-vet check-lint check-plain check-vulnerabilities check-generated ## build, vet, lint, known vulnerabilities, generated files

# The parts of check. Each can run alone. make -j check runs them in parallel.
check-build:
	$(GO) build ./...
	GOOS=wasip1 GOARCH=wasm $(GO) build $(shell cat wasm/postlink/gcflags.txt) ./core/... ./wasm/...

check-vet:
	$(GO) vet ./...
	test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }

# The default checks of staticcheck.
check-lint:
	$(GO) run $(STATICCHECK) ./...

# The number of findings in prose must not increase.
check-plain:
	$(GO) run ./cmd/generate/plain

check-vulnerabilities:
	.ci/vulnerabilities $(GO) run $(GOVULNCHECK) ./...

check-generated:
	.ci/generated

generate: ## run all generators again
	$(GO) generate ./...

fuzz: ## fuzz every parser for half a minute each
	@for p in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$p/*_test.go | cut -c6-); do \
			echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 30s -fuzzminimizetime 1x $$p || exit 1; done; done

clean: ## remove the build output and the data of make run
	rm -rf dist dist-man dist-release .verge
