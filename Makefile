# `make gate` and `make test` work on a fresh clone: they make .venv, install what is pinned, pull the data, and run.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # both installations write to one place
.PHONY: help gate test smoke coverage fuzz bench check generate dist docs setup data clean

VENV := .venv
BIN := $(VENV)/bin
# Three on two cores, four on more.
WORKERS ?= $(shell test "$$(getconf _NPROCESSORS_ONLN)" -le 2 && echo 3 || echo 4)
SECONDS ?= 120
# few: what a pull request waits for; all: every kill, every full disk and every dear way too, as the nightly workflow.
TESTS ?= few
SPREAD := -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
SMOKE := tests/ground tests/records tests/formulas tests/suites tests/interfaces/api tests/models/test_open_clip_adapter.py \
	tests/builds/test_building.py tests/unchanged tests/story
INSTALL := $(BIN)/python .github/scripts/install.py --constraint constraints.txt

# The first Python of at least 3.11, unless PYTHON= names one.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for each in python3 python3.12 python3.11 python3.13; do \
	$$each -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && { echo $$each; break; }; done)

export DVC_NO_ANALYTICS := 1
# Byte code is kept even where the environment says otherwise: nothing was compiled at installation.
unexport PYTHONDONTWRITEBYTECODE

# What decides, reports or is published holds 95% of its lines under test.
HELD := fairgate/__init__.py,fairgate/version.py,fairgate/ground/*,fairgate/records/*,fairgate/formulas/*
HELD := $(HELD),fairgate/data/remote/*,fairgate/models/generation/registry.py,fairgate/reports/*,fairgate/tracking/*
HELD := $(HELD),fairgate/builds/*,fairgate/suites/*,fairgate/gate/*,fairgate/studies/*
HELD := $(HELD),fairgate/interfaces/api.py,fairgate/interfaces/cli/*,fairgate/interfaces/pytest_plugin/*,fairgate/portraits/commands.py

help: ## What can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

gate: $(VENV)/.installed data ## The demonstration: a harmless checkpoint passes, a more biased one fails
	$(BIN)/fairgate demo

test: $(VENV)/.installed-$(if $(filter all,$(TESTS)),servers,dev) data ## The tests, warnings as errors, with the coverage that is promised; PART=1/2 runs half
	rm -f .coverage .coverage.*
	FAIRGATE_TESTS=$(TESTS) FAIRGATE_PART=$(PART) OMP_NUM_THREADS=1 PYTHONPATH=tests/lines \
		$(BIN)/python -m pytest -p line_coverage -p no:slipcover $(SPREAD) --durations 10
	$(if $(PART),,$(MAKE) --no-print-directory coverage)

coverage: # of all parts, whose .coverage.* files are here
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --include='$(HELD)' --skip-covered --fail-under=95

smoke: $(VENV)/.installed-dev data ## A few tests of each floor, for another Python
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(SPREAD) $(SMOKE)

fuzz: $(VENV)/.installed-fuzz ## Strangers' files, tried for SECONDS=120; a failing one is kept in fuzz-failures/
	$(BIN)/python tests/fuzz/run.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(DRAWN),--drawn)

bench: $(VENV)/.installed-dev data ## The short benchmarks, minutes: embedding, growth of decisions, cached gate, to build/benchmarks
	mkdir -p build/benchmarks
	$(BIN)/python -m benchmarks.embedding --images 64 8 --repeats 1 --out build/benchmarks/embedding.json
	$(BIN)/python -m benchmarks.growth --images 2400 24000 --json build/benchmarks/growth.json
	$(BIN)/python -m benchmarks.cached_gate --turns 3 --json build/benchmarks/cached_gate.json

check: $(VENV)/.installed-dev ## Style, types, rooms and workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/actionlint
	$(BIN)/zizmor --offline --no-progress --quiet .github action.yml

generate: $(VENV)/.installed-dev data ## All that is made from registries: schemas, reference, the page on families
	$(BIN)/python -m fairgate.metrics
	$(BIN)/python -m fairgate.records.schemas
	$(BIN)/fairgate suite schema --out fairgate/suites/suite.schema.json
	$(BIN)/python docs/reference/generate.py
	$(BIN)/python tests/families

docs: $(VENV)/.installed-docs ## The documentation as a site in site/; a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: $(VENV)/.installed-release ## What a release publishes, in dist/, built and checked; nothing is sent
	PYTHON=$(VENV)/release/bin/python .github/scripts/dist.sh

setup: $(VENV)/.installed-dev data ## Everything that gate, test and check need

data: $(VENV)/.pulled

clean: ## Remove caches, reports and build products; the data, the runs and .venv stay
	rm -rf .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist fairness-report fuzz-failures site
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# Stamps: a step runs again only when what it depends on has changed.

$(VENV)/.made:
	@[ -n '$(PYTHON)' ] || { echo 'No Python of at least 3.11 was found. Name one: make PYTHON=/path/to/python3.12' >&2; exit 1; }
	@$(PYTHON) -c '$(NEW_ENOUGH)' || { echo '$(PYTHON) is older than Python 3.11. Name another with PYTHON=' >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/.made
	@echo 'Installing fairgate into $(VENV): several GB the first time (PyTorch) ...'
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/.made
	@echo 'Installing fairgate and its development tools into $(VENV): several GB the first time (PyTorch) ...'
	$(INSTALL) --editable '.[dev]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-servers: pyproject.toml constraints.txt | $(VENV)/.made
	$(INSTALL) --editable '.[dev,servers]'
	@touch $(VENV)/.installed $(VENV)/.installed-dev $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(VENV)/.made
	$(INSTALL) --editable '.[docs]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-release: .github/scripts/release-requirements.txt | $(VENV)/.made
	$(PYTHON) -m venv --clear $(VENV)/release
	$(VENV)/release/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --requirement $<
	@touch $@

$(VENV)/.installed-fuzz: pyproject.toml constraints.txt | $(VENV)/.made
	$(INSTALL) --editable '.[dev,fuzz]'
	@touch $(VENV)/.installed $(VENV)/.installed-dev $@

# Data that somebody removed is pulled again, whatever the stamp says.
ifeq ($(and $(wildcard datasets/*),$(wildcard build/*)),)
.PHONY: $(VENV)/.pulled
endif
$(VENV)/.pulled: dvc.lock datasets.dvc .dvc/config | $(VENV)/.installed
	$(BIN)/dvc pull --quiet
	@touch $@
