# Every command a developer needs; `make` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help
# Three workers more than two cores can feed: tests wait for leases to run out. Long files first, see tests/conftest.py.
# Compiled modules are kept: every `tenure` that a test starts would compile them all.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -q -n 5 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

.PHONY: $(shell grep -oE '^[a-z-]+:' $(firstword $(MAKEFILE_LIST)) | tr -d :)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(VENV)/dev-ready ## build .venv with all that demo, tests and benches need

# What the demo needs comes first; linters, test tools and release tools only when somebody asks for them.
$(VENV)/demo-ready: pyproject.toml
$(VENV)/dev-ready $(VENV)/release-ready $(VENV)/docs-ready: $(VENV)/demo-ready
$(VENV)/%-ready: requirements/%.txt tools/setup
	@tools/setup "$(PYTHON)" "$(VENV)" $*
	@touch $@

demo: $(VENV)/demo-ready ## see it: a shop, three workers, the dashboard and keys; without a terminal, a tour with five proofs
	@$(BIN)/tenure demo

test: setup check tools ## run the tests (PostgreSQL 18 embedded, and 15 where apt has it), in some minutes; name the slowest
	@timeout 4500 $(PYTEST) --durations=25 --durations-min=1

test-all: setup check tools ## the same with nothing left out: every PostgreSQL at hand, every drill and page, the long slices
	@TENURE_TEST_ALL=yes timeout 21600 $(PYTEST) --durations=25 --durations-min=1

tools: setup
	@tools/postgres15
	@tools/pgbouncer
	@tools/promtool
	@tools/shells
	@tools/brokers
	@tools/chromium
	@tools/django6

promises: setup ## the promises alone, e.g. on a server of yours: TENURE_TEST_DATABASE_URL=postgresql://...
	@$(PYTEST) tests/guarantees tests/properties tests/house

check: setup ## ruff and mypy --strict; where node is, layout, types and tests of the dashboard's modules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@tools/js/check

format: setup ## lay out Python and, where node is, the dashboard's modules
	@$(BIN)/ruff format --quiet .
	@tools/js/check --format

mutants: setup ## delete every guard of every guarded statement in turn; some test must turn red
	@$(BIN)/python mutants/run.py

# The Postgres of compose.yaml, unless the environment names another.
mutants-citus: setup ## the same for the door to Citus, on a cluster of our own (TENURE_CITUS_BIN=)
	@$(BIN)/python mutants/door.py

migrate: $(VENV)/demo-ready ## bring the schema of DATABASE_URL, or of the Postgres of compose.yaml, to what this package needs
	@TENURE_DATABASE_URL="$${TENURE_DATABASE_URL:-$${DATABASE_URL:-postgresql://tenure:$${POSTGRES_PASSWORD:-tenure-on-this-machine}@127.0.0.1:$${POSTGRES_PORT:-5432}/tenure}}" \
	  $(BIN)/tenure migrate

lease-race: $(VENV)/demo-ready ## the drill: two processes, one paused past its lease
	@$(BIN)/tenure drill lease-race

lease-race-log: $(VENV)/demo-ready ## the same, as one JSON object a line
	@$(BIN)/tenure drill lease-race --json

drills: setup ## every drill by every face: in process, by its command, on the page
	@tools/chromium
	@TENURE_TEST_ALL=yes $(BIN)/python -m pytest -q -n 2 --dist loadfile tests/drills/test_scenes.py tests/faces/browser/test_drills.py

walk: setup ## README and the first guide followed word for word in a fresh clone, with an empty home and a wheel of this tree
	@$(BIN)/python -m pytest -q -n 0 tests/faces/test_walk.py

packages: setup ## the wheel in an empty environment of each Python at hand, and the steps of the Dockerfile
	@$(BIN)/python -m pytest -q -n 0 tests/faces/test_packages.py

soak-batches: setup ## batches while workers are cut off and operators cancel, delete and redrive (BATCHES=100 ROWS=1000 SEED=7)
	@PYTHONPATH=tests $(BIN)/python -m chaos.soak_batches --batches $(or $(BATCHES),100) --rows $(or $(ROWS),1000) $(if $(SEED),--seed $(SEED))

relay-crashes: setup ## relays killed and frozen inside send, on real brokers: nothing lost, in order, once where the broker can (SEED=7)
	@tools/brokers
	@for run in jetstream:claimed:100 jetstream:sending:100 jetstream:sent:100 jetstream:frozen:50 \
	  rabbitmq:claimed:100 rabbitmq:sending:100 rabbitmq:sent:100 rabbitmq:frozen:50 \
	  redis:claimed:20 redis:sending:20 redis:sent:20 redis:frozen:50 kafka:claimed:20 kafka:sending:20 kafka:sent:20; do \
	  set -- $$(echo $$run | tr : ' '); \
	  PYTHONPATH=tests $(BIN)/python -m chaos.relay_crashes --broker $$1 --point $$2 --times $$3 --seed $(or $(SEED),7) || exit 1; done

soak-order: setup ## ordered keys while workers are killed and stopped (SECONDS=180 SEED=7)
	@PYTHONPATH=tests $(BIN)/python -m chaos.soak_order --seconds $(or $(SECONDS),180) $(if $(SEED),--seed $(SEED))

soak-torn: setup ## transactions over two nodes of Citus, a server killed every two seconds: none torn, none lost (TENURE_CITUS_BIN= SECONDS=600 SENDERS=8 SEED=7)
	@PYTHONPATH=tests $(BIN)/python -m chaos.soak_torn --seconds $(or $(SECONDS),600) $(if $(SENDERS),--senders $(SENDERS)) $(if $(SEED),--seed $(SEED))

soak-moves: setup ## ranges of Citus move under load while workers are killed: every key in order, none lost (TENURE_CITUS_BIN= MOVES=100 RATE=500 RANGES=32 SEED=7)
	@PYTHONPATH=tests $(BIN)/python -m chaos.soak_moves --moves $(or $(MOVES),100) $(if $(RATE),--rate $(RATE)) $(if $(RANGES),--ranges $(RANGES)) $(if $(SEED),--seed $(SEED))

soak-journal: setup ## 100,000 events by 16 writers that commit late: none missed, and every naive reader shows its fault (EVENTS=, SEED=7)
	@PYTHONPATH=tests $(BIN)/python -m chaos.soak_journal $(if $(EVENTS),--events $(EVENTS)) $(if $(SEED),--seed $(SEED))

soak-projections: setup ## 50,000 events, holders killed 50 times, two rebuilds under load: the tables equal the journal (EVENTS=, KILLS=, SEED=7)
	@PYTHONPATH=tests $(BIN)/python -m chaos.soak_projections $(if $(EVENTS),--events $(EVENTS)) $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

soak-flows: setup ## 1,000 workflows of three versions, a worker killed every second, a deploy, random signals: all end right (FLOWS=, SEED=7)
	@PYTHONPATH=tests $(BIN)/python -m chaos.soak_flows $(if $(FLOWS),--flows $(FLOWS)) $(if $(SEED),--seed $(SEED))

drill-ha: setup ## Patroni with etcd, pg_auto_failover, and Citus under Patroni, from deploy/ha on loopback: a switchover and kills under load, judged (TIMES=1 ONLY=patroni TENURE_CITUS_BIN=)
	@tools/ha "$(PYTHON)"
	@PYTHONPATH=tests $(BIN)/python -m chaos.drill_ha $(if $(TIMES),--times $(TIMES)) $(if $(ONLY),--only $(ONLY))

readme: setup ## make the race log and the pictures of the README, and the recorded race, anew from real runs
	@$(BIN)/python tools/race_log.py
	@$(BIN)/python tools/record_drill.py lease-race src/tenure/web/static/recordings/lease-race.json
	@tools/chromium
	@$(BIN)/python tools/shots.py

shots: setup ## take every page of the dashboard at two widths and in both themes into build/shots; a serious finding of axe is an error
	@tools/chromium
	@$(BIN)/python tools/shots_of_pages.py

docs: $(VENV)/demo-ready $(VENV)/docs-ready ## write the reference from the code, then build the site of the docs into site/; a warning is an error
	@$(BIN)/python tools/reference.py
	@$(BIN)/python tools/site_pages.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "docs: read site/index.html" >&2

bench: setup ## enqueue, drain, commit to start, an idle fleet and bytes of log against plain psycopg, judged (ONLY=, ROUNDS=, JSON=, PLOTS=)
	@$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(JSON),--json $(JSON)) $(if $(PLOTS),--plots $(PLOTS))

bench-peers: setup ## the same rows for other queues, each in a folder of its own (PEERS=pgqueuer,oban SCALE=0.1)
	@$(BIN)/python -m bench.peers $(if $(PEERS),--peers $(PEERS)) $(if $(SCALE),--scale $(SCALE)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(JSON),--json $(JSON))

bench-growth: setup ## the rate beside what grows: backlog, history, keys, queues and more (ONLY=backlog,keys SCALE=0.01 PLOTS=)
	@$(BIN)/python -m bench.growth $(if $(ONLY),--only $(ONLY)) $(if $(SCALE),--scale $(SCALE)) $(if $(HOLD_SECONDS),--hold-seconds $(HOLD_SECONDS)) $(if $(JSON),--json $(JSON)) $(if $(PLOTS),--plots $(PLOTS))

bench-recovery: setup ## from kill -9 to the next attempt elsewhere, with default settings
	@$(BIN)/python -m bench.recovery

bench-snapshot: setup ## claim time and rate while a snapshot is held for three minutes (ROWS=plain, ordered or limited)
	@$(BIN)/python -m bench.snapshot $(if $(ROWS),--rows $(ROWS))

bench-claim: setup ## claim time by backlog, and our loop against the best raw design
	@$(BIN)/python -m bench.claim

bench-flows: setup ## 3-step workflows beside plain jobs and DBOS; parks and wakes, recalls, claims beside parked flows; judged (FLOWS= PARKED=1000000)
	@$(BIN)/python -m bench.flows $(if $(FLOWS),--flows $(FLOWS)) $(if $(PARKED),--parked $(PARKED))

bench-inboxes: setup ## CPU a job of one process at 1, 2 and 4 inboxes, and the rate of one while another is away; judged (JOBS= ROUNDS= JSON=)
	@$(BIN)/python -m bench.inboxes $(if $(JOBS),--jobs $(JOBS)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(JSON),--json $(JSON))

bench-log: setup ## bytes of the server's log that a job writes, by the size of its payload
	@$(BIN)/python -m bench --only log

bench-shares: setup ## what an idle and a busy fleet cost the server beside a million rows that wait
	@$(BIN)/python -m bench.shares

bench-order: setup ## what order costs: one hot key, many keys, cold keys beside a hot one, against unordered rows
	@timeout 120 $(BIN)/python -m bench.order

bench-encryption: setup ## what encrypted payloads cost: a backlog drained encrypted, against the same in clear
	@$(BIN)/python -m bench.encryption

bench-counted: setup ## what it costs to count the end of each row: rows of a batch completed against rows alone, judged
	@$(BIN)/python -m bench.counted

bench-journal: setup ## appends a second with and without the writers' marks, and how long the horizon takes (EVENTS=)
	@$(BIN)/python -m bench.journal $(if $(EVENTS),--events $(EVENTS))

bench-pages: setup ## every page of the dashboard with a million rows, in SQL and over HTTP
	@$(BIN)/python -m bench.pages
	@$(BIN)/python -m bench.http_pages

# One lock for every Python and platform we support; the later ones keep to the versions of the earlier ones.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url \
	--custom-compile-command "make pin" $(if $(UPGRADE),--upgrade)

pin: $(VENV)/release-ready ## write requirements/*.txt with the hash of every file (UPGRADE=1: newest releases)
	@$(COMPILE) pyproject.toml --extra dev requirements/demo.in -o requirements/demo.txt
	@$(COMPILE) requirements/dev.in -o requirements/dev.txt
	@$(COMPILE) requirements/release.in -o requirements/release.txt
	@$(subst 3.11,3.12,$(COMPILE)) requirements/django6.in -o requirements/django6.txt
	@$(COMPILE) requirements/ha.in -o requirements/ha.txt
	@$(COMPILE) requirements/docs.in -o requirements/docs.txt

audit: $(VENV)/release-ready ## known vulnerabilities of what is pinned
	@for lock in demo dev release docs; do $(BIN)/pip-audit --strict --disable-pip --require-hashes -r requirements/$$lock.txt || exit 1; done

dist: $(VENV)/release-ready ## build sdist and wheel into dist/, and what they depend on into sbom/
	@tools/dist "$(BIN)"

clean: ## remove what setup and dist built
	rm -rf $(VENV) .django6 dist sbom site .site .peers tools/js/node_modules
