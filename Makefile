# make help lists the targets.

# The SAM CLI may build the functions in a copy of the checkout.
ROOT := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))

DESCRIBE := describe --tags --always --dirty 2>/dev/null
VERSION  ?= $(shell git $(DESCRIBE) || git -C '$(ROOT)' $(DESCRIBE) || echo dev)
EXE     := $(shell go env GOEXE)

# Static, and identical bytes on every machine. What is compiled for other targets has the same
# flags where it can, so that a new machine compiles each package once.
SAME  := CGO_ENABLED=0 GOFLAGS="$$(go env GOFLAGS) -trimpath"
BUILD := CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/terrapulse/terrapulse/internal/base/buildinfo.Version=$(VERSION)"

PLATFORMS := linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64 windows_arm64

.DEFAULT_GOAL := help
.PHONY: help build build-all demo demo-tools demo-aws verify-aws compiled test test-all test-short test-tofu test-consul test-terraform simulate lint docs bench curves tools clean release release-images test-release $(PLATFORMS)

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

build: ## Build bin/terrapulse for this machine
	$(BUILD) -o bin/terrapulse$(EXE) ./cmd/terrapulse

build-all: $(PLATFORMS) ## Build for Linux, macOS and Windows, amd64 and arm64

$(PLATFORMS):
	GOOS=$(word 1,$(subst _, ,$@)) GOARCH=$(word 2,$(subst _, ,$@)) \
		$(BUILD) -o bin/terrapulse_$@$(if $(filter windows_%,$@),.exe) ./cmd/terrapulse

# What the demo needs is downloaded or built while terrapulse is compiled.
demo: ## Demonstrate changes with a real Consul and a real Terraform; KEEP=1 leaves them running
	@test -e .tools/bin/consul$(EXE) || echo "This builds terrapulse, and gets Consul, Terraform and a provider: about 3 minutes on a new machine with 2 cores, and once only. The demonstration then takes some seconds."
	@$(SAME) go build -o bin/fetch$(EXE) ./tools/fetch
	@$(MAKE) --no-print-directory -j 2 build demo-tools
	@$(SAME) go build -o bin/demo$(EXE) ./examples/demo
	@exec bin/demo$(EXE) $(if $(KEEP),-keep)

demo-tools:
	@bin/fetch$(EXE) consul terraform terraform-provider-local

demo-aws: ## Demonstrate an AWS deployment on this machine, with a simulated ECS; KEEP=1 leaves it running
	@$(SAME) go run ./tools/fetch run aws
	@cd functions/e2e && go test -count 1 -run '^TestDemo$$' -timeout 0 -args -demo $(if $(KEEP),-keep)

# Tests often wait for servers and for other processes: two run at a time on each core.
JOBS = $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc 2>/dev/null || echo 2))))
HALF = $$(($(JOBS) / 2))

# On a new machine, tests that build programs would compile the same packages side by side, and
# others would wait for the processor. So everything is compiled before the first test. Unlike
# `go build`, `go list -export` links no programs only to delete them.
COMPILE = go list -export -f '{{""}}'

compiled:
	@$(COMPILE) -race -trimpath $(PACKAGES) ./internal/people/web
	@for arch in amd64 arm64; do export GOOS=linux GOARCH=$$arch; \
		$(SAME) $(COMPILE) -tags lambda.norpc ./functions/... && $(SAME) $(COMPILE) ./cmd/terrapulse || exit 1; done

# What these tests exercise are other programs (Terraform, the SAM CLI, a browser, terrapulse itself),
# histories that run in one goroutine, or the text of the source: the race detector would take three to
# ten times their processor time and find nothing that the tests of the packages do not. functions/install does
# one thing at a time, and would have EC2's client compiled once more. `make test-all` has it in them, too.
PROGRAMS = ./cmd/terrapulse ./functions/e2e ./functions/install ./infra ./internal/people/web ./internal ./internal/engine/simulate ./examples ./examples/demo
PACKAGES = $(filter-out $(PROGRAMS:./%=github.com/terrapulse/terrapulse/%),$(shell go list ./...))

# The packages that take longest begin first: otherwise some of them would run alone at the end.
LONGEST = ./internal/driver/terraformcli ./internal/engine/reconcile ./internal/consul

# `make lint` runs go vet. Stacks have names and lines also without symbols, which take a third of the
# time of linking. Without its paths, all checkouts share what is compiled.
GOTEST = go test -trimpath -vet=off -ldflags='-s -w' -p $(HALF) -parallel $(JOBS) -timeout 45m

test: tools compiled ## Run the tests (needs a C compiler, for the race detector)
	@$(MAKE) --no-print-directory -j 2 test-programs test-packages

.PHONY: test-programs test-packages
test-programs:
	$(if $(PROGRAMS),$(SAME) $(GOTEST) $(PROGRAMS))

# By default, a program with the race detector sleeps for a second before it exits, and tests start
# hundreds of them.
test-packages:
	GORACE=atexit_sleep_ms=100 $(GOTEST) -race $(LONGEST) $(PACKAGES)
	$(if $(PROGRAMS),GORACE=atexit_sleep_ms=100 $(GOTEST) -race -short ./internal/people/web)

test-all: ## Run all tests: also of releases, all mutants and long searches, all with the race detector
	@$(SAME) go run ./tools/fetch judges release docs
	TERRAPULSE_TEST_ALL=1 $(MAKE) test PROGRAMS=

test-short: ## Run the tests that need no other program, in under a minute
	go test -short -vet=off -ldflags='-s -w' -p $(JOBS) ./...

test-tofu: ## Run every test with OpenTofu instead of Terraform
	@$(SAME) go run ./tools/fetch run $(if $(EXE),,nomad pages aws) tofu
	TERRAPULSE_TEST_ENGINE=tofu go test -p $(JOBS) -parallel $(JOBS) -timeout 45m ./...

test-consul: ## Run the tests that need Consul with other versions of it; CONSUL=1.21.0 chooses one
	@$(SAME) go run ./tools/fetch run consuls
	@for version in $(or $(CONSUL),$$(ls .tools/consul)); do echo "Consul $$version"; export TERRAPULSE_TEST_CONSUL=$$version; \
		go test -p $(JOBS) -parallel $(JOBS) -timeout 20m ./internal/consul/... ./internal/stores/consulkv ./internal/consul/registration ./internal/consul/dynamic && \
		go test -parallel $(JOBS) -timeout 20m -run '$(CONSUL_TESTS)' ./cmd/terrapulse || exit 1; done

# The tests of the program that differ with Consul: rights, outages, a cluster.
CONSUL_TESTS = Compat|Polic|Rights|Cluster|Consul

test-terraform: ## Run the tests that need Terraform with each tested version of it; TERRAFORM=1.11.4 chooses one
	@$(SAME) go run ./tools/fetch run terraforms
	@for version in $(or $(TERRAFORM),$$(ls .tools/terraform)); do echo "Terraform $$version"; export TERRAPULSE_TEST_TERRAFORM=$$version; \
		go test -p $(JOBS) -parallel $(JOBS) -timeout 20m ./internal/driver/terraform/... ./internal/driver/terraformcli ./internal/driver/tfplan && \
		go test -parallel $(JOBS) -timeout 20m -run '$(TERRAFORM_TESTS)' ./cmd/terrapulse || exit 1; done

# The tests of the program that differ with Terraform: plans and what they lose, checks, states, interrupts.
TERRAFORM_TESTS = Compat|Drift|Verif|Renam|Mov|Migrat|Lost|Unsaved|Output|Plan|Inspect|Values|Cloud|Interrupt|Stop

# By default, each run simulates different histories.
SEED ?= $(shell date +%s)000000

simulate: ## Search for a history of faults that breaks the engine: N=100000, FOR=10m; SEED=1 TRACE=1 prints one
	$(SAME) go test -count 1 -timeout 0 -v -run NoHistory ./internal/engine/simulate -args \
		$(if $(N),-histories $(N),-for $(or $(FOR),60s)) -seed $(SEED) $(if $(TRACE),-trace)

verify-aws: build ## Prove in an AWS account what the tests cannot; see infra/verify-aws for its variables
	@infra/verify-aws

lint: ## Check formatting, and run go vet, staticcheck, govulncheck, cfn-lint, actionlint, parliament, checkov, cloudsplaining and `make docs`
	@$(SAME) go run ./tools/fetch lint python parliament
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	$(SAME) go vet ./...
	$(SAME) GOOS=windows go vet ./...
	$(SAME) .tools/bin/staticcheck$(EXE) ./...
	@.ci/vulnerabilities
	.tools/bin/cfn-lint template.yaml infra/network.yaml examples/ci/github/roles.yaml examples/consul-watch/hint.yaml
	.tools/bin/actionlint$(EXE) -shellcheck= -pyflakes= $(wildcard .github/workflows/*.yml examples/ci/github/*.yml examples/ci/daemon/github.yml)
	@SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 .tools/bin/sam validate --lint
	.tools/python/bin/python infra/iam/policies.py template.yaml examples/ci/github/roles.yaml | .tools/parliament/bin/python infra/iam/lint.py
	.tools/python/bin/python infra/iam/policies.py template.yaml infra/network.yaml examples/ci/github/roles.yaml examples/consul-watch/hint.yaml | .tools/checkov/bin/python infra/iam/findings.py infra/iam/README.md
	@$(MAKE) --no-print-directory docs

docs: ## Build the documentation as a site with search into dist/site
	@$(SAME) go run ./tools/fetch docs
	@NO_MKDOCS_2_WARNING=1 .tools/site/bin/python -m mkdocs build --strict --quiet
	@echo "dist/site/index.html is the first page"

bench: tools build ## Measure speed and size, and compare them with their limits
	go test -p 1 -run '^$$' -bench . -benchtime 1x -timeout 60m ./...

curves: tools ## Measure how costs grow with tasks and services, and draw them into docs/scale: 10 minutes
	@go run -C tools/curves .

tools: ## Install Consul, Terraform, Nomad, a browser and simulated AWS services for tests into .tools
	@$(SAME) go run ./tools/fetch

# A release has the version of its tag and the time of its commit.
RELEASE ?= $(shell git describe --tags --exact-match 2>/dev/null || echo v0.0.0-snapshot-$$(git rev-parse --short HEAD))

release: ## Build a release into dist and bin/release; PUBLISH=1 publishes it. See docs/develop/release.md
	@test -z '$(PUBLISH)' || test -n '$(TERRAFORM_IMAGE)' || { echo "set TERRAFORM_IMAGE to the image of Terraform with its digest: docs/develop/release.md"; exit 1; }
	@$(SAME) go run ./tools/fetch release
	go run ./tools/release -version '$(RELEASE)' -to bin/release $(if $(BUCKET),-bucket '$(BUCKET)') $(if $(TERRAFORM_IMAGE),-terraform-image '$(TERRAFORM_IMAGE)')
	RELEASE='$(RELEASE)' DATE=$$(git log -1 --format=%cI) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) PATH='$(ROOT)/.tools/bin':"$$PATH" \
		goreleaser release --clean $(if $(PUBLISH),,--snapshot)

release-images: ## Build the images of a release for both processors; see infra/runner/release for options
	@VERSION='$(RELEASE)' sh infra/runner/release

test-release: ## Build a whole release, for all platforms, and check what is in it
	@$(SAME) go run ./tools/fetch run aws release
	TERRAPULSE_TEST_ALL=1 TERRAPULSE_TEST_RELEASE=all go test -run Release -timeout 30m ./infra

clean: ## Remove built files; downloaded tools stay in the user's cache
	rm -rf bin dist .tools

# Targets of `sam build`. Each function has a program for both processors: tests run it here.
FUNCTION = sh '$(ROOT)/functions/build' '$(ARTIFACTS_DIR)' '$(VERSION)'

.PHONY: build-InstallFunction build-ReconcileFunction build-SettleFunction build-NotificationFunction build-ApiFunction build-TrustLayer runner-image daemon-image

build-InstallFunction:
	$(FUNCTION) install runner

build-ReconcileFunction:
	$(FUNCTION) reconcile

build-SettleFunction:
	$(FUNCTION) settle

build-NotificationFunction:
	$(FUNCTION) notification

build-ApiFunction:
	$(FUNCTION) api

build-TrustLayer:
	sh '$(ROOT)/layers/trust/pack' "$(ARTIFACTS_DIR)/trust"

runner-image: ## Build the image of the containers in AWS; see infra/runner/build for options
	@VERSION="$(VERSION)" sh infra/runner/build

daemon-image: ## Build the image of the daemon, for infra/daemon/compose.yaml
	@VERSION="$(VERSION)" TARGET=daemon sh infra/runner/build
