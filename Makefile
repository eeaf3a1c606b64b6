# make help lists the targets.

# The SAM CLI may build the functions in a copy of the checkout.
ROOT := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))

DESCRIBE := describe --tags --always --dirty 2>/dev/null
VERSION  ?= $(shell git $(DESCRIBE) || git -C '$(ROOT)' $(DESCRIBE) || echo dev)
EXE     := $(shell go env GOEXE)

# Static, and identical bytes on every machine.
BUILD := CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)"

PLATFORMS := linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64 windows_arm64

.DEFAULT_GOAL := help
.PHONY: help build build-all demo demo-aws test test-short test-tofu simulate lint bench tools clean $(PLATFORMS)

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

build: ## Build bin/terrapulse for this machine
	$(BUILD) -o bin/terrapulse$(EXE) ./cmd/terrapulse

build-all: $(PLATFORMS) ## Build for Linux, macOS and Windows, amd64 and arm64

$(PLATFORMS):
	GOOS=$(word 1,$(subst _, ,$@)) GOARCH=$(word 2,$(subst _, ,$@)) \
		$(BUILD) -o bin/terrapulse_$@$(if $(filter windows_%,$@),.exe) ./cmd/terrapulse

demo: build ## Demonstrate changes with a real Consul and a real Terraform; KEEP=1 leaves them running
	@go run ./tools/fetch run
	@go build -o bin/demo$(EXE) ./examples/demo
	@exec bin/demo$(EXE) $(if $(KEEP),-keep)

demo-aws: ## Demonstrate an AWS deployment on this machine, with a simulated ECS; KEEP=1 leaves it running
	@go run ./tools/fetch run aws
	@cd functions/e2e && go test -count 1 -run '^TestDemo$$' -timeout 0 -args -demo $(if $(KEEP),-keep)

# Tests often wait for servers and for other processes: two run at a time on each core.
JOBS = $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc 2>/dev/null || echo 2))))

test: tools ## Run every test, with the race detector (needs a C compiler)
	go test -race -p $(JOBS) -parallel $(JOBS) -timeout 20m ./...

test-short: tools ## Run the quick tests, in under a minute
	go test -short ./...

test-tofu: ## Run every test with OpenTofu instead of Terraform
	@go run ./tools/fetch run policy $(if $(EXE),,pages aws) tofu
	TERRAPULSE_TEST_ENGINE=tofu go test -p $(JOBS) -parallel $(JOBS) -timeout 20m ./...

# By default, each run simulates different histories.
SEED ?= $(shell date +%s)000000

simulate: ## Search for a history of faults that breaks the engine: N=100000, FOR=10m; SEED=1 TRACE=1 prints one
	go test -count 1 -timeout 0 -v -run NoHistory ./internal/simulate -args \
		$(if $(N),-histories $(N),-for $(or $(FOR),60s)) -seed $(SEED) $(if $(TRACE),-trace)

lint: ## Check formatting, and run go vet, staticcheck, govulncheck and cfn-lint
	@go run ./tools/fetch lint python
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	GOOS=windows go vet ./...
	.tools/bin/staticcheck$(EXE) ./...
	@.ci/vulnerabilities
	.tools/bin/cfn-lint template.yaml infra/network.yaml
	@SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 .tools/bin/sam validate --lint

bench: tools build ## Measure speed and size, and compare them with their limits
	go test -run '^$$' -bench . -benchtime 1x -timeout 60m ./...

tools: ## Install Consul, Terraform, conftest and the simulated AWS services for tests into .tools
	@go run ./tools/fetch

clean: ## Remove built files; downloaded tools stay in the user's cache
	rm -rf bin .tools

# Targets of `sam build`. It does not pass the architecture; ARCH must be equal to the
# parameter Architecture.
ARCH     ?= arm64
FUNCTION := cd '$(ROOT)' && CGO_ENABLED=0 GOOS=linux GOARCH=$(if $(filter x86_64,$(ARCH)),amd64,$(ARCH)) \
	go build -tags lambda.norpc -trimpath -ldflags "-s -w -X main.version=$(VERSION)"

.PHONY: build-ReconcileFunction build-SettleFunction build-ApiFunction build-TrustLayer runner-image daemon-image

build-ReconcileFunction:
	$(FUNCTION) -o "$(ARTIFACTS_DIR)/bootstrap" ./functions/reconcile

build-SettleFunction:
	$(FUNCTION) -o "$(ARTIFACTS_DIR)/bootstrap" ./functions/settle

build-ApiFunction:
	$(FUNCTION) -o "$(ARTIFACTS_DIR)/bootstrap" ./functions/api

build-TrustLayer:
	sh '$(ROOT)/layers/trust/pack' "$(ARTIFACTS_DIR)/trust"

runner-image: ## Build the image of the containers in AWS; see infra/runner/build for options
	@VERSION="$(VERSION)" sh infra/runner/build

daemon-image: ## Build the image of the daemon, for infra/daemon/compose.yaml
	@VERSION="$(VERSION)" TARGET=daemon sh infra/runner/build
