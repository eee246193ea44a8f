# SPDX-License-Identifier: Apache-2.0
#
# make help tells what there is. Everything is built from source with Go; only nmap
# comes from the distribution. Tools have pinned versions and land in bin/tools.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory

BIN   := $(CURDIR)/bin
TOOLS := $(BIN)/tools

# Modules of go.work, and the one that is not in it: tests links Kubernetes' servers.
MODULES := apis cli console discovery findings forwarding hooks operator parsers podkit registry reports scanners settings tests/testcluster
# Outside of the workspace: the tests, which link Kubernetes' servers, and the example, which is built as somebody else's program is.
ALL     := $(MODULES) tests examples/gatekeeper

K8S_VERSION        := v1.37.2
CONTROLLER_GEN     := sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
CRD_REF_DOCS       := github.com/elastic/crd-ref-docs@v0.3.0
# Helm and gitleaks are built with the local cluster's versions of the libraries that they share.
HELM_VERSION       := $(shell awk '$$1 == "helm.sh/helm/v4" {print $$2}' tests/go.mod)
GITLEAKS_VERSION   := $(shell awk '$$1 == "github.com/zricethezav/gitleaks/v8" && $$2 {print $$2}' hack/gitleaks/go.mod)
FFUF_VERSION       := v2.2.1
GOLANGCI_VERSION   := v2.15.0
HELM_DOCS_VERSION  := v1.14.2
HUGO_VERSION       := v0.164.0
PROMTOOL_VERSION   := v0.316.0
BUF_VERSION        := v1.75.0
PROTOC_GEN_GO      := v1.36.12
PROTOC_GEN_GO_GRPC := v1.6.2
PROTO_TOOLS        := $(TOOLS)/buf-$(BUF_VERSION) $(TOOLS)/protoc-gen-go-$(PROTOC_GEN_GO) $(TOOLS)/protoc-gen-go-grpc-$(PROTOC_GEN_GO_GRPC)

# Static binaries, and one set of compiler flags everywhere: the build cache is shared
# by builds, tests and linters. No program keeps its debugging data, so compilers make none:
# a fifteenth less to compute, a quarter less to cache. Nothing compiled names the folder of the checkout, so
# all checkouts of a machine share the cache as well. "eval $(make env)" has a shell do the same.
export CGO_ENABLED := 0
export GOFLAGS     := -buildvcs=false -trimpath -gcflags=all=-dwarf=false

VERSION_PKG := k8s.io/component-base/version
LDFLAGS_LOCALCLUSTER := -s -w -X $(VERSION_PKG).gitVersion=$(K8S_VERSION) -X $(VERSION_PKG).gitMajor=1 -X $(VERSION_PKG).gitMinor=37

# Only the command line is linked with it: what every commit changed would be linked anew by every build.
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT      := $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS_CLI := -s -w -X github.com/scanyard/scanyard/apis/buildinfo.version=$(VERSION) -X github.com/scanyard/scanyard/apis/buildinfo.commit=$(COMMIT)

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-zA-Z0-9_-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ What most people want

.PHONY: demo
demo: demo-programs tools ## Start a cluster on this machine, run real scans in it, show their findings, clean up
	@$(BIN)/demo $(DEMO_ARGS)

.PHONY: demo-registry
demo-registry: demo-programs other-programs tools ## Start a cluster and a container registry on this machine, show images, SBOMs, vulnerabilities and who has them, clean up
	@$(BIN)/demo registry

.PHONY: up
up: demo-programs other-programs tools ## Start a cluster with everything installed, and keep it for playing
	@$(BIN)/demo up

.PHONY: down
down: ## Stop the cluster of "make up" and remove what it made
	@$(BIN)/demo down

.PHONY: test
test: build tools test-tools ## Run all tests: unit tests, tests on a real API server, end to end with real scanners
	@hack/test.sh

.PHONY: bench
bench: build ## Measure: scans per second, API writes per scan, latencies, parser throughput
	@hack/bench.sh

.PHONY: bench-registry bench-reports
bench-registry: build ## Measure registry scanning against its goals: filters, discovery, matching again, fairness; BENCH_REGISTRY_IMAGES=10000 is the full size
	@hack/bench-registry.sh $(BENCH_REGISTRY_ARGS)

bench-reports: build test-tools ## Measure the reports server: a million results written and asked for, and PolicyReports beside CRDs in etcd
	@go test ./reports/internal/bench -run '^$$' -bench . -benchtime 20x -timeout 60m $(BENCH_REPORTS_ARGS)
	@bin/bench reports $(BENCH_REPORTS_CLUSTER_ARGS)

.PHONY: bench-scale
bench-scale: build ## Measure the operator with many Scans: memory, restart, latency, lists; BENCH_SCALE_ARGS='-copied 100000 -held 10000' for the full size
	@bin/bench scale $(BENCH_SCALE_ARGS)

.PHONY: bench-console
bench-console: build ## Measure the console: how long its pages take, what a first visit loads, what a hundred viewers cost; BENCH_CONSOLE_ARGS='-reports 1000 -scans 10000' for the full size, '-databases postgresql'
	@hack/slow.sh "building what fills databases" go test -c -o $(BIN)/reports-filler ./reports/internal/bench
	@bin/bench console $(BENCH_CONSOLE_ARGS)

.PHONY: pictures
pictures: build test-tools recording ## Make the pictures of the docs anew: the console with the reports API in a real Chromium, and what "make recording" makes
	@cd tests && PICTURES=$(CURDIR)/docs/pictures GOWORK=off go test ./console -run '^TestPictures$$' -count 1

.PHONY: recording
recording: demo-programs tools ## Record the demo anew, and take pictures of commands and of a report at its cluster: docs/pictures
	@hack/needs.sh chromium
	@cd tests && GOWORK=off go run ./cmd/record -bin $(BIN) -out $(CURDIR)/docs/pictures

.PHONY: site check-site
site: $(TOOLS)/hugo-$(HUGO_VERSION) ## Build the documentation as a site in dist/site, with search and versions; a link that leads nowhere is an error
	@hack/needs.sh go git
	@cd tests && GOWORK=off go run ./cmd/site -hugo $(TOOLS)/hugo-$(HUGO_VERSION) -root $(CURDIR) -out $(DIST)/site

check-site: site ## Try the site in a real Chromium: search, keyboard, contrast, small screens, no request to anybody
	@hack/needs.sh chromium
	@cd tests && SITE=$(DIST)/site GOWORK=off go test ./site -run '^TestBuilt' -count 1

.PHONY: bench-forwarding
bench-forwarding: build $(if $(BENCH_PEER),bench-peer) ## Measure forwarding: a million findings and thousands of Scans through the forwarder, and what the exporter takes and delivers; BENCH_PEER=otel compares it with the OpenTelemetry Collector
	@hack/forwarding.sh bench

.PHONY: bench-peer
bench-peer: ## Build the OpenTelemetry Collector that forwarding is compared with: some minutes the first time
	@cd hack/otelcol && CGO_ENABLED=0 GOWORK=off go build -ldflags='-s -w' -o $(BIN)/otelcol .

.PHONY: fault-forwarding
fault-forwarding: build tools ## Run the list of faults of forwarding at its full size, and those that need a cluster
	@hack/forwarding.sh fault

##@ Building

.PHONY: build
build: $(BIN)/localcluster ## Build all programs into bin/
	@hack/needs.sh go
	@mkdir -p $(BIN)
	@hack/slow.sh "building the command line" go build -ldflags='$(LDFLAGS_CLI)' -o $(BIN)/ ./cli/cmd/...
	@hack/slow.sh "building all other programs" go build -ldflags='-s -w' -o $(BIN)/ \
		./operator/cmd/... ./discovery/cmd/... ./parsers/cmd/... ./hooks/cmd/... ./scanners/cmd/... \
		./reports/cmd/... ./forwarding/cmd/... ./registry/cmd/... ./console/cmd/...
	@hack/slow.sh "building the demo and the benchmarks" \
		bash -c "cd tests && GOWORK=off go build -ldflags='-s -w' -o $(BIN)/ ./cmd/demo ./cmd/bench"

# They link as much as all the rest, so neither build nor test asks for them.
.PHONY: adapters
adapters: build $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) ## Build, lint and test the adapters of scanner engines (ADAPTERS=grype): the first time 10 CPU minutes each, later one or two
	@hack/adapters.sh $(ADAPTERS)

.PHONY: licences
licences: ## List the modules that the adapters link, each with its licence
	@hack/adapters.sh licences $(ADAPTERS)

# What the demo runs; the rest would cost a new machine a minute.
.PHONY: demo-programs
demo-programs: $(BIN)/localcluster
	@hack/needs.sh go
	@hack/slow.sh "building the operator, its scanners and hooks, and the demo" \
		bash -c "go build -ldflags='$(LDFLAGS_CLI)' -o $(BIN)/ ./cli/cmd/... && go build -ldflags='-s -w' -o $(BIN)/ ./operator/cmd/... ./parsers/cmd/... \
			./hooks/cmd/... ./scanners/cmd/test-scan ./reports/cmd/... ./forwarding/cmd/forwarder ./forwarding/cmd/receiver && \
		cd tests && GOWORK=off go build -ldflags='-s -w' -o $(BIN)/ ./cmd/demo"

# What charts run that people may install on a cluster that stays. An image whose program is not built is not on the cluster.
.PHONY: other-programs
other-programs: $(BIN)/localcluster
	@hack/slow.sh "building the console, registry scanning and the exporter" go build -ldflags='-s -w' -o $(BIN)/ ./console/cmd/... ./registry/cmd/... ./forwarding/cmd/exporter

# Kubernetes' servers take minutes to compile on a machine that has not done it before;
# go build itself finds out what has changed.
.PHONY: $(BIN)/localcluster
$(BIN)/localcluster:
	@hack/needs.sh go disk
	@mkdir -p $(BIN)
	@hack/slow.sh "building the local cluster (Kubernetes $(K8S_VERSION)): some minutes the first time, seconds after that" \
		bash -c "cd tests && GOWORK=off go build -ldflags='$(LDFLAGS_LOCALCLUSTER)' -o $(BIN)/localcluster ./cmd/localcluster"

.PHONY: tools
tools: $(TOOLS)/helm-$(HELM_VERSION) $(TOOLS)/gitleaks-$(GITLEAKS_VERSION) ## Install what demo and tests use: helm, gitleaks (Go), nmap (apt)
	@hack/needs.sh nmap git

.PHONY: test-tools
test-tools: $(TOOLS)/ffuf-$(FFUF_VERSION) $(TOOLS)/promtool-$(PROMTOOL_VERSION) ## Install what only the tests use: ffuf, promtool (Go); ncrack, whatweb, Firefox, testssl.sh, Chromium, an SSH server, PostgreSQL, MariaDB (apt)
	@hack/needs.sh ncrack whatweb firefox testssl sshd chromium postgresql mariadb

$(TOOLS)/ffuf-$(FFUF_VERSION):
	@hack/tool.sh ffuf $(FFUF_VERSION) github.com/ffuf/ffuf/v2 github.com/ffuf/ffuf/v2

# Rules are tried without service discovery, which is most of the program.
$(TOOLS)/promtool-$(PROMTOOL_VERSION):
	@GOFLAGS='$(GOFLAGS) -tags=remove_all_sd' hack/tool.sh promtool $(PROMTOOL_VERSION) github.com/prometheus/prometheus/cmd/promtool github.com/prometheus/prometheus

$(TOOLS)/helm-$(HELM_VERSION):
	@hack/tool.sh helm $(HELM_VERSION) helm.sh/helm/v4/cmd/helm tests

$(TOOLS)/gitleaks-$(GITLEAKS_VERSION):
	@hack/tool.sh gitleaks $(GITLEAKS_VERSION) github.com/zricethezav/gitleaks/v8 hack/gitleaks

$(TOOLS)/hugo-$(HUGO_VERSION):
	@hack/tool.sh hugo $(HUGO_VERSION) github.com/gohugoio/hugo github.com/gohugoio/hugo

$(TOOLS)/helm-docs-$(HELM_DOCS_VERSION):
	@hack/tool.sh helm-docs $(HELM_DOCS_VERSION) github.com/norwoodj/helm-docs/cmd/helm-docs

$(TOOLS)/buf-$(BUF_VERSION):
	@hack/tool.sh buf $(BUF_VERSION) github.com/bufbuild/buf/cmd/buf github.com/bufbuild/buf

$(TOOLS)/protoc-gen-go-$(PROTOC_GEN_GO):
	@hack/tool.sh protoc-gen-go $(PROTOC_GEN_GO) google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/protobuf

$(TOOLS)/protoc-gen-go-grpc-$(PROTOC_GEN_GO_GRPC):
	@hack/tool.sh protoc-gen-go-grpc $(PROTOC_GEN_GO_GRPC) google.golang.org/grpc/cmd/protoc-gen-go-grpc google.golang.org/grpc/cmd/protoc-gen-go-grpc

$(TOOLS)/golangci-lint-$(GOLANGCI_VERSION):
	@hack/tool.sh golangci-lint $(GOLANGCI_VERSION) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

##@ Images

# IMAGES picks recipes ("parser scanner-nmap"), IMAGES_ARGS passes options (--platform linux/amd64 --tag v1).
DIST ?= $(CURDIR)/dist

.PHONY: images
images: $(BIN)/images ## Build the container images for amd64 and arm64, reproducibly and without Docker, as OCI layouts in dist/
	@$(BIN)/images build $(IMAGES) --out $(DIST) --revision "$$(git rev-parse HEAD)" $(IMAGES_ARGS)

.PHONY: push-images
push-images: $(BIN)/images ## Build the images and push them: REGISTRY=registry.example.com/scanyard TAG=v1
	@$(BIN)/images push $(IMAGES) --registry "$${REGISTRY:?name the registry and prefix, as REGISTRY=registry.example.com/scanyard}" --tag "$${TAG:-dev}" --revision "$$(git rev-parse HEAD)" $(IMAGES_ARGS)

.PHONY: $(BIN)/images
$(BIN)/images:
	@hack/needs.sh go
	@mkdir -p $(BIN)
	@go build -ldflags='-s -w' -o $@ ./scanners/cmd/images

##@ Releases

# VERSION has a default for builds; a release is named by its maintainer.
RELEASE := $(if $(filter command% environment%,$(origin VERSION)),$(VERSION))

.PHONY: release
release: $(BIN)/images $(BIN)/release ## Make a release in dist/: VERSION=v0.2.0 [REGISTRY=registry.example.com/scanyard] [KEY=cosign.key] [DIST=folder] [DRY_RUN=1]; docs/releasing.md
	@$(BIN)/release --version '$(RELEASE)' --registry '$(REGISTRY)' --key '$(KEY)' --dist '$(DIST)' $(if $(DRY_RUN),--dry-run) $(RELEASE_ARGS)

.PHONY: $(BIN)/release
$(BIN)/release:
	@hack/needs.sh go git
	@mkdir -p $(BIN)
	@go build -ldflags='-s -w' -o $@ ./scanners/cmd/release

##@ Keeping it in order

.PHONY: new-scanner
new-scanner: $(TOOLS)/helm-$(HELM_VERSION) $(TOOLS)/helm-docs-$(HELM_DOCS_VERSION) ## Begin a scanner: NAME=my-tool [RESULT_TYPE=sarif] makes its parser, a test that fails until it is written, and its chart
	@GOWORK=off go -C tests run ./cmd/begin scanner '$(CURDIR)' '$(NAME)' $(RESULT_TYPE)
	@$(MAKE) -C charts docs golden CHART='$(NAME)' HELM=$(TOOLS)/helm-$(HELM_VERSION) HELM_DOCS=$(TOOLS)/helm-docs-$(HELM_DOCS_VERSION)
	@$(if $(RESULT_TYPE),,$(MAKE) -C charts docs golden CHART=import HELM=$(TOOLS)/helm-$(HELM_VERSION) HELM_DOCS=$(TOOLS)/helm-docs-$(HELM_DOCS_VERSION))
	@echo 'Go on with docs/add-a-scanner.md.'

.PHONY: new-hook
new-hook: $(TOOLS)/helm-$(HELM_VERSION) $(TOOLS)/helm-docs-$(HELM_DOCS_VERSION) ## Begin a hook: NAME=my-hook [TYPE=ReadAndWrite] makes its package, a test that fails until it is written, and its chart
	@GOWORK=off go -C tests run ./cmd/begin hook '$(CURDIR)' '$(NAME)' $(TYPE)
	@$(MAKE) -C charts docs golden CHART='$(NAME)' HELM=$(TOOLS)/helm-$(HELM_VERSION) HELM_DOCS=$(TOOLS)/helm-docs-$(HELM_DOCS_VERSION)
	@echo 'Go on with docs/add-a-hook.md.'

.PHONY: generate
generate: $(TOOLS)/helm-docs-$(HELM_DOCS_VERSION) $(PROTO_TOOLS) ## Regenerate deep copies, CRDs, the code of the wire API, the references and the READMEs of charts
	@PATH=$(TOOLS):$$PATH hack/proto.sh generate
	@hack/generate.sh "$(CONTROLLER_GEN)" "$(CRD_REF_DOCS)"
	@$(MAKE) -C charts docs HELM_DOCS=$(TOOLS)/helm-docs-$(HELM_DOCS_VERSION)

.PHONY: fmt
fmt: $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) ## Format all Go code
	@for m in $(ALL); do (cd $$m && GOWORK=off $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) fmt -c $(CURDIR)/.golangci.yml ./...); done

.PHONY: lint
lint: $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) $(TOOLS)/helm-$(HELM_VERSION) ## Lint all Go code and the charts
	@for m in $(ALL); do echo "lint $$m"; (cd $$m && GOWORK=off $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) run -c $(CURDIR)/.golangci.yml ./...); done
	@$(MAKE) -C charts lint HELM=$(TOOLS)/helm-$(HELM_VERSION)

.PHONY: verify
verify: generate verify-proto ## Fail where generated files or go.mod files are not current, or a module does not build alone
	@hack/verify.sh $(ALL)

.PHONY: verify-proto
verify-proto: $(PROTO_TOOLS) ## Fail where the wire API would no longer speak with the one of the last release
	@PATH=$(TOOLS):$$PATH hack/proto.sh verify

.PHONY: e2e
e2e: build tools test-tools ## Run the end-to-end suites, or those of SUITES='e2e fault scoped cli'; LABELS='smoke && !slow', FOCUS='regexp' and PROCS=n choose specs
	@hack/test.sh e2e

.PHONY: long
long: build tools test-tools ## Run at their full size what "make test" runs in a short form: faults of the reports server, specs with the label long
	@hack/long.sh

.PHONY: soak
soak: build tools ## Let Scans run for SOAK (2h) while operator, API server, etcd, S3 and node agent are killed in turn: nothing lost, nothing doubled, no growth
	@LOCALCLUSTER_BIN=$(BIN)/localcluster SCANYARD_BIN=$(BIN) HELM=$(TOOLS)/helm FAULT_SOAK='$(SOAK)' SUITE_TIMEOUT=24h ATTEMPTS=1 LABELS=long FOCUS='A soak' hack/suite.sh fault

.PHONY: race
race: build ## Run the tests of what works concurrently with the race detector; needs a C compiler, and installs one (apt)
	@hack/needs.sh cc
	@hack/race.sh

.PHONY: fuzz
fuzz: ## Fuzz each parser for FUZZTIME (30s), and what else reads foreign text for 10s
	@hack/fuzz.sh $${FUZZTIME:-30s} '^parsers/'
	@hack/fuzz.sh $${FUZZTIME:-10s} '^(apis|cli|console|discovery|findings|forwarding|hooks|operator|podkit|registry|reports|scanners|settings)/'

.PHONY: env
env: ## Print the environment in which go shares the build cache of these targets: eval "$(make env)"
	@echo "export CGO_ENABLED=$(CGO_ENABLED) GOFLAGS='$(GOFLAGS)'"

.PHONY: clean
clean: ## Remove what was built
	@rm -rf $(BIN)
