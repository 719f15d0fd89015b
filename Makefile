# Every command a developer needs; `make` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help

.PHONY: help setup demo test check mutants lease-race lease-race-log docs bench-claim clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(VENV)/ready ## build .venv with all that demo, tests and benches need

$(VENV)/ready: pyproject.toml requirements/dev.txt
	@tools/setup "$(PYTHON)" "$(VENV)"
	@touch $@

demo: setup ## see it: embedded Postgres, the lease race, a hundred receipts
	@$(BIN)/tenure demo

test: setup check ## run the tests (PostgreSQL 18 embedded, and 15 where apt has it)
	@tools/postgres15
	@tools/pgbouncer
	@tools/promtool
	@$(BIN)/python -m pytest -q

check: setup ## ruff and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

mutants: setup ## delete every guard of every guarded statement in turn; some test must turn red
	@$(BIN)/python mutants/run.py

lease-race: setup ## the drill: two processes, one paused past its lease
	@$(BIN)/tenure drill lease-race

lease-race-log: setup ## the same, as one JSON object a line
	@$(BIN)/tenure drill lease-race --json

docs: setup ## write the reference from the headers of the SQL
	@$(BIN)/python tools/verbs_reference.py

bench-claim: setup ## claim time by backlog, and our loop against the best raw design
	@$(BIN)/python -m bench.claim

clean: ## remove what setup built
	rm -rf $(VENV)
