# SPDX-License-Identifier: Apache-2.0
# `make help` says what there is. Needs Python 3.11 or newer and nothing else.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export HERE := $(CURDIR)
ENOUGH := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
# The first that is new enough; `make setup PYTHON=/path/to/python` decides otherwise.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	if $$p -c '$(ENOUGH)' >/dev/null 2>&1; then echo $$p; exit; fi; done; echo python3)

.DEFAULT_GOAL := help
.PHONY: help setup demo test slow gpu check format docs system clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*##  *\(.*\)/  make \1#\2/p' Makefile | awk -F'#' '{ printf "%-14s %s\n", $$1, $$2 }'

setup: $(STAMP)  ## build .venv from requirements.lock (once; again when the lock changes)

# A virtual environment holds its own path: in a copied or moved checkout it would run the old one's files.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

$(STAMP): requirements.lock pyproject.toml setup.py
	@$(PYTHON) -c '$(ENOUGH)' 2>/dev/null || { \
	  echo "make setup: JouleLab needs Python 3.11 or newer, with its modules venv and ensurepip." >&2; \
	  echo "  found: $(PYTHON), $$($(PYTHON) --version 2>&1 | head -n 1)" >&2; \
	  echo "  cure: make setup PYTHON=/path/to/python3.11 (Debian, Ubuntu: apt install python3-venv)" >&2; \
	  exit 1; }
	@[ ! -e $(STAMP) ] || [ "$$(cat $(STAMP))" = "$$HERE" ] || rm -rf $(VENV)
	@rm -f $(STAMP)
	$(PYTHON) -m venv $(VENV)
	@echo "make setup: installing what requirements.lock names; torch is large, this takes minutes the first time"
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check
	@printf '%s\n' "$$HERE" > $(STAMP)

demo: $(STAMP)  ## a small real study on the CPU; the record goes to runs/demo
	$(BIN)/joulelab study studies/demo.toml --out runs/demo

test: $(STAMP)  ## all fast tests
	$(BIN)/python -m pytest

slow: $(STAMP)  ## the tests that take longer
	$(BIN)/python -m pytest -m slow || [ $$? = 5 ]  # 5: there are none

gpu: $(STAMP)  ## the tests that need a real accelerator
	$(BIN)/python -m pytest -m gpu || [ $$? = 5 ]

check: $(STAMP)  ## ruff (rules and layout) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## let ruff lay the code out
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

docs: $(STAMP)  ## write docs/cli.md anew from the commands' own help
	$(BIN)/python tests/test_docs.py

system:  ## programs that some tests use when they are there (Debian, as root; skipped elsewhere)
	@if ! command -v apt-get >/dev/null 2>&1; then echo "make system: no apt-get here: nothing done, tests that need a browser or Slurm skip"; \
	elif [ "$$(id -u)" != 0 ]; then echo "make system: not root: nothing done, tests that need a browser or Slurm skip"; \
	else apt-get update -qq || echo "make system: the package lists could not be refreshed; trying with the old ones"; \
	  for p in chromium chromium-driver slurm-wlm munge; do \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$p >/dev/null \
	      || echo "make system: $$p could not be installed: tests that need it skip"; \
	  done; fi

clean:  ## remove the environment and what the tools leave; runs/ stays
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info src/joulelab/*/*.so
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
