# Legal-RL: every target builds its own .venv when it is missing or older than the lock file, and may be run again at any time.
#   make quickstart   train, evaluate and report the Lawyer on this machine's CPU (about 15-20 minutes the first time, seconds after)
#   make test         every test, slow full-stack ones included (about 12 minutes on 2 cores)
#   make test-fast    the same without the slow mark (about 2-4 minutes)
#   make lint         ruff and pyright (about 1 minute)
#   make bench        measurements in benchmarks/ (about half a minute)
#   make clean        removes caches and .venv; keeps runs/
# Variables: EXTRA=cpu|gpu picks requirements/$(EXTRA).lock; PYTHON picks the interpreter (3.11 or 3.12); ARGS goes to the command.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

EXTRA ?= cpu
PYTHON ?=
ARGS ?=
UV_VERSION := 0.13.9
PY := .venv/bin/python
STAMP := .venv/.installed-$(EXTRA)

# Each process gets its threads from the layout; spinning OpenMP waits cost a factor of ten beside other work.
export OMP_WAIT_POLICY := passive
export KMP_BLOCKTIME := 0
export TOKENIZERS_PARALLELISM := false

.PHONY: help install quickstart test test-fast lint bench clean

help: ## Show the targets
	@sed -n '2,9s/^# *//p' Makefile

install: $(STAMP) ## Build .venv from the lock file (1-2 minutes, 7 GB)

$(STAMP): requirements/$(EXTRA).lock requirements/no-deps.txt pyproject.toml
	@echo "== install: .venv from requirements/$(EXTRA).lock (1-2 minutes, 7 GB on disk)"
	@bash launch/install.sh "$(EXTRA)" "$(UV_VERSION)" "$(PYTHON)"
	@touch "$(STAMP)"

quickstart: $(STAMP) ## Index, synthesise, SFT, GRPO, evaluate, report
	@echo "== quickstart: index, trajectories, policy, SFT, GRPO, evaluation, report (about 15 minutes on 2 cores; resumes where it stopped)"
	@$(PY) -m legal_rl quickstart $(ARGS)

test: $(STAMP) ## All tests, the slow ones included
	@echo "== test: every test, full-stack ones included (about 12 minutes on 2 cores; 'make test-fast' leaves the slow ones out)"
	@bash launch/test.sh $(ARGS)

test-fast: $(STAMP) ## Tests without the slow mark
	@echo "== test-fast: tests without the slow mark (about 3 minutes)"
	@bash launch/test.sh -m "not slow" $(ARGS)

lint: $(STAMP) ## ruff and pyright
	@echo "== lint: ruff and pyright (about 1 minute)"
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m pyright

bench: $(STAMP) ## Measurements, written to benchmarks/results
	@echo "== bench: retrieval measurements (about half a minute)"
	@for script in benchmarks/bench_*.py; do echo "-- $$script"; $(PY) "$$script" || echo "   not measured"; done

clean: ## Remove caches and .venv; runs/ stays
	@echo "== clean: caches, build outputs and .venv (runs/ is kept)"
	@rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist ./*.egg-info .coverage .coverage.* htmlcov
	@find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
