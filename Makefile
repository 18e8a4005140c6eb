# Everything starts here: `make demo` shows Cairn at work, `make test` proves it.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
SEED ?= 7
# Tests side by side: each of these processes starts servers of its own. Files stay whole, those that share a server together.
JOBS ?= 2
BIN := .venv/bin
# What `make quick` runs. `make coverage` runs what it is told, or all: TESTS='$(QUICK)'.
QUICK := tests/flows/compiler tests/flows/memory tests/flows/handlers/stac tests/domain/rules tests/test_docs.py \
	tests/architecture/test_{rooms,sizes,statements,table_of_knowledge,attended,tied,coverage_table,release,walk}.py
TESTS ?=

help:  ## Show what can be made
	@grep -hE '^[a-z-]+:.*  ## ' $(MAKEFILE_LIST) | sed -E 's/:.*  ## /\t/' | expand -t 12

setup:  ## Make the clone ready to run: .venv, PostgreSQL with PostGIS, Redis, the console's scripts
	@deployments/setup.sh stack

setup-dev:
	@deployments/setup.sh dev

demo: setup  ## Send one raster all the way through and check what comes out (SEED=7)
	@$(BIN)/cairn demo --seed $(SEED)

up: setup  ## Start the embedded stack and leave it running
	@$(BIN)/cairn up --detach

down:  ## Stop the embedded stack
	@[ ! -x $(BIN)/cairn ] || $(BIN)/cairn down

test: setup-dev  ## Run all tests, real servers included
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

quick: setup-dev  ## The pure core and the laws of the tree, without any server: under a minute
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile $(QUICK)

coverage: setup-dev  ## Run all tests (or TESTS=tests/domain) and show how much of each room they pass through, slowly
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m tests.support.measured -q -n $(JOBS) --dist loadfile --no-loadscope-reorder $(TESTS)

check: setup-dev  ## Style, types, architecture: under a minute
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-cache | tail -n 2
	@$(BIN)/mypy
	@$(BIN)/cairn deploy --check >/dev/null

bench: setup-dev  ## Run every benchmark in its short form
	@for name in $$($(BIN)/cairn bench); do echo "== $$name"; CAIRN_BENCH_SHORT=1 $(BIN)/cairn bench $$name; done

chaos: setup-dev  ## Kill the stack's processes at work and check that nothing is lost
	@CAIRN_CHAOS_RUNS=$${CAIRN_CHAOS_RUNS:-50} CAIRN_DECISION_KILLS=$${CAIRN_DECISION_KILLS:-30} $(BIN)/python -m pytest tests/chaos -m chaos -s
	@CAIRN_TRACES=$${CAIRN_TRACES:-120} $(BIN)/python -m pytest tests/flows/runs/test_traces.py -s

outages: setup-dev  ## Take the database, Prefect, run storage and a release away for minutes (scaled), and count what is lost
	@CAIRN_OUTAGE_RUNS=$${CAIRN_OUTAGE_RUNS:-60} CAIRN_OUTAGE_FACTOR=$${CAIRN_OUTAGE_FACTOR:-30} $(BIN)/python -m pytest -s -v \
		tests/chaos/test_outages.py tests/chaos/test_waited_out.py tests/domain/test_frozen_database.py \
		tests/chaos/test_engine_kills.py -k "not survives"

storms: setup-dev  ## Kill processes of every kind for half an hour under a mixed load; cut lines and fill disks for a minute each
	@CAIRN_STORM_SECONDS=$${CAIRN_STORM_SECONDS:-1800} $(BIN)/python -m pytest tests/chaos/test_random_kills.py -s
	@CAIRN_CUT_SECONDS=$${CAIRN_CUT_SECONDS:-60} $(BIN)/python -m pytest tests/chaos/test_cuts.py -s

hosts: setup-dev  ## Share 2,000 items and a tiled raster between two hosts; cut one off and kill the other, 20 times
	@CAIRN_HOSTS_RUNS=$${CAIRN_HOSTS_RUNS:-20} $(BIN)/python -m pytest tests/chaos/test_hosts.py -s

machines: setup-dev  ## Live through 2,000 lives of an asset, 50 acts each, by one client and by two that race
	@CAIRN_MACHINE_RUNS=$${CAIRN_MACHINE_RUNS:-2000} CAIRN_MACHINE_STEPS=$${CAIRN_MACHINE_STEPS:-50} \
		$(BIN)/python -m pytest tests/domain/test_machine.py tests/domain/test_racing_machine.py -s

hostile: setup-dev  ## Take 1,000 hostile files through real tries, watch what they open; have a taken-over try attempt to get out
	@CAIRN_HOSTILE_FILES=$${CAIRN_HOSTILE_FILES:-1000} $(BIN)/python -m pytest tests/flows/handlers/hostile \
		tests/flows/tries/test_hostile_child.py -s

fuzz: setup-dev  ## Ask the gateway 10,000 things made from its own documents; read as 10,000 tenants; try all doors of serving
	@CAIRN_FUZZ_CASES=$${CAIRN_FUZZ_CASES:-11000} CAIRN_ROLE_READINGS=$${CAIRN_ROLE_READINGS:-10000} \
		CAIRN_LEAKS=all $(BIN)/python -m pytest tests/gateway/test_fuzz.py tests/gateway/test_role.py \
		tests/gateway/serving/test_leaks.py -s

fairness: setup-dev  ## Have one platform submit 500 rasters, then another five; withdraw beside 200 waiting parents
	@CAIRN_FAIRNESS=$${CAIRN_FAIRNESS:-500} $(BIN)/python -m pytest tests/e2e/test_fairness.py -s

lives: setup-dev  ## Publish, change and roll back 20 workflows on two domains under load
	@CAIRN_LIVES=$${CAIRN_LIVES:-20} $(BIN)/python -m pytest tests/e2e/test_publishing.py -k lives -s

images: setup-dev  ## Do what the Dockerfiles do, in fresh environments, and measure it
	@CAIRN_IMAGES=1 $(BIN)/python -m pytest tests/deployments/test_images.py -s

contract: setup-dev  ## Hold both engines to their contract with another release of Prefect (PREFECT=3.9.1; newest unsaid)
	@$(BIN)/python -m tests.support.beside $(PREFECT)

stock: setup-dev  ## Run every shipped workflow through Prefect's own engines, and many items under a limit of one through both
	@CAIRN_TESTED_ENGINE=stock $(BIN)/python -m pytest tests/e2e/test_operator_runs.py -s
	@CAIRN_CONTRACT_ITEMS=10,250,5000 CAIRN_CONTRACT_STOCK_ITEMS=$${CAIRN_CONTRACT_STOCK_ITEMS:-250} \
		$(BIN)/python -m pytest tests/flows/prefect_engine/test_limited_tags.py -s

prefect-names: setup-dev  ## Ask another Prefect for every name that we use of its insides (PREFECT=3.9.1; newest unsaid)
	@$(BIN)/python -m tests.support.beside --names $(PREFECT)

lock: setup-dev  ## Write anew which files the images install: versions as in constraints.txt, each with its hashes
	@$(BIN)/python -m deployments.lock

bill: setup-dev  ## Write what each image is made of, with versions, licences and hashes (CycloneDX): dist/bill
	@$(BIN)/python -m deployments.bill dist/bill

audit: setup-dev  ## Ask a public list what is known of every package that images install
	@$(BIN)/python -m deployments.audit

clean: down  ## Delete everything that was made here: .venv, .cairn, .coverage, caches
	@[ ! -x $(BIN)/cairn ] || $(BIN)/cairn down --wipe >/dev/null
	rm -rf tests/support/tools/node_modules domain/console/web/node_modules domain/console/static/vendor .venv .cairn .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis

.PHONY: help setup setup-dev demo up down test quick coverage check bench chaos machines hostile fuzz images lock bill audit fairness hosts lives outages storms contract stock prefect-names clean
