# Everything a person or CI runs. `make` alone prints the list.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# An environment without byte code (many base images) would compile every module again in each of some hundred processes that a test run starts.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# One more than the cores of a small machine: many tests wait for processes.
WORKERS ?= 3

# A stamp is named for the hash of what it installed, so a changed lock or project file installs again and nothing else does.
hash = $(shell cat requirements/$(1).lock pyproject.toml | sha256sum | cut -c1-16)
DEV_STAMP := $(VENV)/.dev-$(call hash,dev)
RUN_STAMP := $(VENV)/.run-$(call hash,run)
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -q

.PHONY: help install run-install demo test lint lint-code lint-types lint-layers lint-protos lint-charts fmt soak coverage bench proto docs lock images clean

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

install: $(DEV_STAMP) ## make .venv with everything: all extras, tests, linters, generators

run-install: $(RUN_STAMP)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no python3.11 found: install Python 3.11 to 3.13, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' \
	  || { echo "$(PYTHON) is not Python 3.11 to 3.13: name one that is: make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip' 2>/dev/null \
	  || { echo "$(PYTHON) cannot make a virtual environment: on Debian, apt-get install python3-venv" >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV)

# Hashes are checked for every file; byte code is left to the first import, of what is imported. The project itself is built by the locked backend, without fetching another.
define install_lock
	@echo "installing requirements/$(1).lock into $(VENV)" >&2
	@$(PIP) install --no-compile --require-hashes --no-deps -r requirements/$(1).lock
	@$(PIP) install --no-deps --no-build-isolation -e .
endef

$(DEV_STAMP): | $(BIN)/python
	$(call install_lock,dev)
	@rm -f $(VENV)/.dev-* $(VENV)/.run-*
	@touch $@ $(RUN_STAMP)

$(RUN_STAMP): | $(BIN)/python
	$(call install_lock,run)
	@rm -f $(VENV)/.run-*
	@touch $@

demo: ## install what running needs, then run the demo; prints both times
	@start=$$(date +%s%N); \
	$(MAKE) run-install; \
	ready=$$(date +%s%N); \
	echo "installed in $$(( (ready - start) / 1000000 )) ms" >&2; \
	status=0; $(BIN)/licet demo || status=$$?; \
	echo "ran in $$(( ($$(date +%s%N) - ready) / 1000000 )) ms" >&2; \
	exit $$status

lint: lint-code lint-types lint-layers lint-protos ## formatting, lint, types, layers, protos and generated code

lint-code: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-types: $(DEV_STAMP)
	$(BIN)/mypy

lint-layers: $(DEV_STAMP)
	$(BIN)/lint-imports --no-logo

lint-protos: $(DEV_STAMP)
	$(BIN)/buf lint
	$(BIN)/buf format --diff --exit-code
	$(BIN)/python scripts/proto --check
	$(BIN)/python -m examples.refund.generate --check
	$(BIN)/python -m examples.packs.generate --check
	scripts/breaking

lint-charts: $(DEV_STAMP) ## judge charts and images by checkov, in an environment of its own
	$(BIN)/python scripts/checkov.py

fmt: $(DEV_STAMP) ## format code and protos
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/buf format --write

test: $(DEV_STAMP) ## all tests but the soak; ARGS="-k name" for pytest
	@$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0 -m "not soak" $(ARGS)

soak: $(DEV_STAMP) ## the tests that run for minutes
	@$(BIN)/pytest -m soak --timeout 3600 $(ARGS)

coverage: $(DEV_STAMP) ## hold the tests of the pure modules against every line and branch of them
	@$(BIN)/python scripts/pure_coverage.py $(ARGS)

bench: $(DEV_STAMP) ## measure; raw results in bench/results
	@$(BIN)/python -m bench $(ARGS)

proto: $(DEV_STAMP) ## generate licet/v1 from proto/, and the examples' code and descriptors
	@$(BIN)/python scripts/proto
	@$(BIN)/python -m examples.refund.generate
	@$(BIN)/python -m examples.packs.generate

docs: $(DEV_STAMP) ## write the pages of docs/ that come from the code
	@for script in scripts/reference.py scripts/refusals.py scripts/telemetry.py scripts/dashboard.py; do $(BIN)/python $$script; done

lock: ## pin the requirements by hash; ARGS=--upgrade takes newer ones
	@$(BIN)/python scripts/lock $(ARGS)

images: $(DEV_STAMP) ## build the images with buildah on BASE (an image, or a directory with a root file system)
	@$(BIN)/python scripts/images --base "$(BASE)" $(ARGS)

clean: ## remove .venv, caches and build output
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage htmlcov
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
