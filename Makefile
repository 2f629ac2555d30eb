# What people type. Everything runs in .venv, which is made from requirements.lock and nothing else.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --extra dev \
	--custom-compile-command "make lock" pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help setup run test chaos check bench kafka kafka-stop lock lock-check clean

help: ## Show what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Make .venv from the lock file (again, when that has changed)

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "turnlog needs Python 3.11 or newer; choose one with PYTHON=…")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing what requirements.lock lists into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

run: setup ## Run turnlog on http://127.0.0.1:18790 with the embedded PostgreSQL
	@exec $(BIN)/turnlog serve

test: setup ## Run the tests (a PostgreSQL comes along; Kafka by TURNLOG_TEST_KAFKA, Docker or Java)
	$(BIN)/pytest --ignore=tests/chaos --numprocesses=auto --maxprocesses=4 --dist=worksteal

chaos: setup ## Run the chaos tests: kills, lost brokers and databases, races (TURNLOG_TEST_CHAOS=long: ten times as long)
	$(BIN)/pytest tests/chaos

check: setup ## Check style, formatting, types, imports and the lock file
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory lock-check

bench: setup ## Measure speed and memory against raw asyncpg; fails when a bound is missed
	$(BIN)/python -m tests.bench

kafka: setup ## Start a local single-node Kafka without Docker and print its address
	@$(BIN)/python -m tests.kafka_local start

kafka-stop: setup ## Stop it and remove its data
	@$(BIN)/python -m tests.kafka_local stop

lock: setup ## Write requirements.lock again after a change of dependencies in pyproject.toml
	$(LOCK) --output-file requirements.lock

lock-check: setup
	@set -e; fresh=$$(mktemp); trap 'rm -f "$$fresh"' EXIT; cp requirements.lock "$$fresh"; \
	$(LOCK) --output-file "$$fresh" >/dev/null || { echo "The lock file can't be checked: the package index is out of reach" >&2; exit 1; }; \
	diff -u requirements.lock "$$fresh" || { echo "requirements.lock is not in step with pyproject.toml: run make lock" >&2; exit 1; }
	@echo "requirements.lock is in step"

clean: ## Remove .venv and everything that tools left behind
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m tests.kafka_local stop >/dev/null 2>&1 || true; fi
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .schemathesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
