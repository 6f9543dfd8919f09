# Every target sets up what it needs and does nothing twice. `make` alone prints this list.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Servers are started by the hundred; each would compile the whole program anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
KUBE_VERSIONS ?= 1.36 1.34:kubectl
PYTEST_ARGS ?=
PYTHONS ?= 3.11
FUZZ_SECONDS ?= 30
SIM_FOR ?= 3m
SIM_FLAGS ?= --shrink
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Each example is a program of its own, so two of them may have modules of the same name.
EXAMPLES := $(sort $(dir $(wildcard examples/*/*.py)))
UV_VERSION := 0.13.7

.PHONY: help
help: ## Print what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): pyproject.toml $(wildcard packages/*/pyproject.toml) requirements-dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "make: $(PYTHON) must be Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "make: this Python has no venv module; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "setting up $(VENV)"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv pip sync -q --compile-bytecode --require-hashes --python $(BIN)/python requirements-dev.lock
	@$(BIN)/uv pip install -q --no-deps --python $(BIN)/python $(patsubst %,-e %,$(wildcard packages/kube-fairlead*))
	@$(BIN)/python -m compileall -q packages/*/src
	@touch $@

.PHONY: setup
setup: $(READY) ## Make the development environment in .venv

.PHONY: demo
demo: $(READY) ## Show what Fairlead does, on a control plane of its own; ends by itself
	@$(BIN)/fairlead demo

.PHONY: test
test: $(READY) ## Run every test that takes moments and needs nothing but Python
	@$(BIN)/pytest -q -n auto --dist worksteal -m "not kube and not long and not system" $(PYTEST_ARGS)

.PHONY: test-system
test-system: $(READY) ## Run whole systems: programs that elect, drain, are killed; needs nothing but Python either
	@$(BIN)/pytest -q -n auto --dist worksteal -m "system and not kube and not long" $(PYTEST_ARGS)

.PHONY: kube
kube: ## Build real Kubernetes and etcd for the tests (cached; KUBE_VERSIONS="1.35 1.37" for others)
	@hack/kube/build.sh $(KUBE_VERSIONS)

.PHONY: test-kube
test-kube: $(READY) kube ## Run the shared suite and the interoperability tests on real Kubernetes
	@$(BIN)/pytest -q -n 2 --dist loadgroup -m "kube and not long" $(PYTEST_ARGS)

.PHONY: test-long
test-long: KUBE_VERSIONS += 1.37:kube-apiserver
test-long: $(READY) kube ## Run what takes minutes: soak, many seeds, hundreds of handovers
	@$(BIN)/pytest -q -m long $(PYTEST_ARGS)

.PHONY: sim
sim: $(READY) ## Play fresh seeds of the simulation on all cores (SIM_FOR=1h for longer)
	@$(BIN)/fairlead sim --for $(SIM_FOR) --jobs "$$(nproc)" $(SIM_FLAGS)

.PHONY: sim-ci
sim-ci: $(READY) ## Play a fixed set of seeds of the simulation, each twice: the same seed is the same history
	@$(BIN)/fairlead sim --seed 1 --seeds 16 --twice --jobs "$$(nproc)"

.PHONY: e2e
e2e: $(READY) kube ## Drain a real node: two of them, with systemd, containerd and kubelet (root; skipped with the reason)
	@hack/e2e/run.sh $(BIN)/pytest -q -rs -m "not long" tests/e2e $(PYTEST_ARGS)

.PHONY: e2e-long
e2e-long: $(READY) kube ## Take two real nodes down twenty times for each failure of a kubelet alone (root; most of an hour)
	@hack/e2e/run.sh $(BIN)/pytest -q -rs -s -m long tests/e2e $(PYTEST_ARGS)

.PHONY: test-windows
test-windows: $(READY) ## Run the agent as a Windows service, under Wine (fetched by apt; skipped with the reason)
	@hack/windows/run.sh $(BIN)/pytest -q -rs tests/windows $(PYTEST_ARGS)

.PHONY: fuzz
fuzz: $(READY) ## Fuzz what reads bytes of clients, guided by coverage (FUZZ_SECONDS=600 for each target; Linux)
	@$(BIN)/uv pip install -q --require-hashes --only-binary :all: --python $(BIN)/python --target build/fuzz -r hack/fuzz/requirements.txt
	@for target in $$($(BIN)/python -c 'from tests.fuzz.targets import TARGETS; print(*TARGETS)'); do \
		echo "fuzzing $$target"; PYTHONPATH=build/fuzz $(BIN)/python hack/fuzz/run.py $$target $(FUZZ_SECONDS) || exit 1; \
	done

.PHONY: lint
lint: $(READY) ## Check format, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@for example in $(EXAMPLES); do MYPYPATH=$$example $(BIN)/mypy --no-error-summary $$example; done

.PHONY: format
format: $(READY) ## Format and fix what can be fixed
	@$(BIN)/ruff check --fix-only -q .
	@$(BIN)/ruff format -q .

.PHONY: bench
bench: $(READY) ## Measure: memory, start-up, throughput; beside real Kubernetes where it is built
	@$(BIN)/python -m bench

.PHONY: dist
dist: $(READY) ## Build the wheel and the source archive of every distribution into dist
	@hack/release/build.sh

.PHONY: test-wheels
test-wheels: $(READY) ## Install the wheels of dist into empty environments and run them (PYTHONS="3.13 3.14" for others)
	@FAIRLEAD_WHEELS=$(CURDIR)/dist FAIRLEAD_PYTHONS="$(PYTHONS)" FAIRLEAD_REQUIRE_REAL=1 $(BIN)/pytest -q tests/wheels $(PYTEST_ARGS)

.PHONY: lock
lock: $(READY) ## Resolve the development dependencies anew
	@$(BIN)/uv pip compile -q --upgrade --universal --generate-hashes --no-header --no-annotate --no-emit-index-url --group dev packages/*/pyproject.toml -o requirements-dev.lock

.PHONY: types
types: kube ## Read the built-in kinds anew from the pinned Kubernetes
	@hack/types/generate.sh

.PHONY: upstream
upstream: ## List our modules whose upstream files changed (FROM=1.36 TO=1.37; ONLY=text, DIFF=1 for the differences)
	@$(PYTHON) hack/upstream/worklist.py "$(FROM)" "$(TO)" --only "$(ONLY)" $(if $(DIFF),--diff)

.PHONY: crds
crds: $(READY) ## Write the CRDs of the lifecycle kinds anew from their types
	@$(BIN)/python hack/crds/generate.py

.PHONY: surface
surface: $(READY) ## Write packages/*/public-surface.txt anew: what users may import
	@$(BIN)/python hack/surface/write.py

.PHONY: proto
proto: $(READY) ## Compile the driver protocol anew
	@hack/proto/generate.sh

.PHONY: clean
clean: ## Remove what was built here (not the cached Kubernetes binaries)
	@rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build dist
