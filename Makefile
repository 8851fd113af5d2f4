# Everything a newcomer needs: `make demo` and `make test`. Both set up a virtual environment in .venv first.

PYTHON ?= $(shell for candidate in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$candidate; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
# Written when a setup has succeeded; older than what it depends on means: set up again.
STAMP := $(VENV)/.set-up

.DEFAULT_GOAL := help
PYTHONS := 3.11 3.12 3.13 3.14
.PHONY: help setup test-pythons demo docs browser test lint format test-slow spark test-spark warehouses test-warehouses \
	test-faults test-mutations bench bench-small bench-logs bench-full clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name what; \
		do printf '  make %-12s %s\n' "$$name" "$$what"; done

setup: $(STAMP)  ## a virtual environment in .venv with the package and everything to develop it

$(STAMP): pyproject.toml setup.py
	@if [ -z '$(PYTHON)' ]; then \
		echo 'sparsehist needs Python 3.11 or newer, and none was found. Install one' >&2; \
		echo '(Debian and Ubuntu: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python' >&2; \
		exit 1; fi
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo '$(PYTHON) cannot make virtual environments (Debian and Ubuntu: apt-get install python3-venv)' >&2; exit 1; }
	@echo 'Setting up $(VENV), once: what pip loads and installs takes some minutes'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,plots,docs]'
	@touch $@

demo: $(STAMP)  ## release a real log at three privacy levels, out of order, for the cost of one
	rm -rf .demo
	$(BIN)/sparsehist demo

docs: $(STAMP)  ## the site of documentation in build/site, without network
	$(BIN)/python -m sphinx -q -W --keep-going -c docs -d build/doctrees . build/site
	@echo 'read build/site/index.html'

browser: tests/node_modules/.package-lock.json  ## chromium and axe-core, for tests of pages in a browser
	@command -v chromium >/dev/null || { apt-get update -q && apt-get install -qy --no-install-recommends chromium; } || \
		{ echo 'chromium is missing and could not be installed; install it and try again' >&2; exit 1; }

tests/node_modules/.package-lock.json: tests/package-lock.json
	@command -v npm >/dev/null || { apt-get update -q && apt-get install -qy --no-install-recommends npm; } || \
		{ echo 'npm is missing and could not be installed; install it and try again' >&2; exit 1; }
	npm ci --prefix tests --ignore-scripts --no-audit --no-fund
	@touch $@

# Installing Debian's server also makes and starts one of its own; the tests start theirs in a temporary directory.
warehouses: $(STAMP)  ## PostgreSQL and ClickHouse, for tests of counting where a log lies
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
		{ apt-get update -q && apt-get install -qy --no-install-recommends postgresql; } || \
		{ echo 'PostgreSQL is missing and could not be installed; install it and try again' >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test-warehouses]'

test-warehouses: spark warehouses  ## counting by SQL on every warehouse there is here, all cases
	$(BIN)/python -m pytest -q tests/counting/test_warehouses.py tests/counting/test_one_histogram.py

test: lint  ## lint, types and the default test suite; what needs Spark where Java 17 and pyspark are found
	$(BIN)/python -m pytest -q -n 2 -m 'not slow and not faults and not spark'
	$(BIN)/python -m pytest -q -m 'spark and not slow' tests

# TESTS=tests/test_layout.py tries a few only; each Python gets an environment of its own.
TESTS ?=
test-pythons:  ## the default tests on each Python from 3.11 to 3.14 that is installed
	@ran=; for version in $(PYTHONS); do \
		if ! "python$$version" -c "import venv" 2>/dev/null; then echo "python$$version is not installed: not tested"; continue; fi; \
		$(MAKE) --no-print-directory PYTHON="python$$version" VENV=".venv-$$version" setup || exit 1; \
		".venv-$$version/bin/python" -m pytest -q -n 2 -m 'not slow and not faults and not spark' $(TESTS) || exit 1; \
		ran="$$ran $$version"; done; echo "tested:$${ran:- none}"; test -n "$$ran"

lint: $(STAMP)  ## ruff and mypy, nothing is changed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## let ruff format and repair what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test-slow: $(STAMP)  ## longer tests, and further cases of those in the default suite
	$(BIN)/python -m pytest -q -n 2 -m 'slow and not spark'

spark: $(STAMP)  ## Java 17 and pyspark, for tests of counting on a cluster
	@java -version 2>/dev/null || [ -n "$$JAVA_HOME" ] || \
		{ apt-get update -q && apt-get install -qy --no-install-recommends openjdk-17-jre-headless; } || \
		{ echo 'Java 17 is missing and could not be installed; install it and try again' >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark]'

test-spark: spark  ## everything that needs Spark, large logs and killed tasks included
	$(BIN)/python -m pytest -q -m spark tests

KILLS ?= 200
CUTS ?= 100
test-faults: $(STAMP)  ## kill it at every write, fsync and rename, cut the power; KILLS=1000 for all; needs strace
	@command -v strace >/dev/null || apt-get install -y --no-install-recommends strace || \
		{ echo 'strace is missing and could not be installed; install it and try again' >&2; exit 1; }
	SPARSEHIST_KILLS=$(KILLS) SPARSEHIST_CUTS=$(CUTS) $(BIN)/python -m pytest -q -m faults

# A script that answers a question calls options_of; the others there only make its input, or are run by one of these.
# Peers need environments of their own and Java 17 for Spark, so they and Spark itself come with bench-full only.
bench: $(STAMP)  ## what counting costs on this machine, by type of column and kind of source, in five minutes
	$(BIN)/python benchmarks/column_types.py --rows 5_000_000 --runs 1

bench-small: $(STAMP)  ## every benchmark at a small size; results as JSON in .bench/
	@mkdir -p .bench
	@set -e; for script in $$(grep -l -e 'options_of(parser)' benchmarks/*.py | grep -v -e /peers.py -e /spark.py); do \
		name=$$(basename "$$script" .py); case $$name in pipeline|counting|column_types|sql_front) size='--rows 1_000_000 --runs 3';; \
			workload_speed) size='--cells 1_000_000';; workload_error) size='--exponents 7 9';; \
			profiles) size='--rows 300_000 --runs 5';; \
			domain_size|release) size='--runs 10';; before_after) size='--runs 3 --rows 10_000';; dense_sparse) size='--runs 1';; start) size='--runs 7';; \
			people) size='--people 200_000 --cells 1_000_000 --runs 3';; \
			noise) size='--draws 200_000 --runs 3';; marginals) size='--cells 200_000 --runs 3';; *) size=;; esac; \
		echo "== $$name"; $(BIN)/python "$$script" $$size --out ".bench/$$name.json"; done
	$(BIN)/python benchmarks/page.py --results .bench --page .bench/RESULTS.md

RUNS ?= 5
bench-logs: $(STAMP)  ## counting six logs of 10 and 50 million rows, into README and the results: two hours at RUNS=5
	$(BIN)/python benchmarks/pipeline.py --rows 10_000_000 50_000_000 $(if $(CRAN),--cran $(CRAN)) --runs $(RUNS) \
		--out benchmarks/results/pipeline.json
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/speed_page.py

# CRAN=DIRECTORY adds the download log of the CRAN mirror where a script takes one.
bench-full: $(STAMP) spark  ## all at full size, peers and CRAN=DIRECTORY included: hours, 24 GB of memory, Java 17
	@mkdir -p .bench
	@set -e; for script in $$(grep -l -e 'options_of(parser)' benchmarks/*.py); do \
		name=$$(basename "$$script" .py); case $$name in dense_sparse|scale) size=--full;; \
			bounding|domains|lossless|planned|real_logs|running) size='$(if $(CRAN),--cran $(CRAN))';; \
			pipeline) size='--rows 1_000_000 10_000_000 50_000_000 $(if $(CRAN),--cran $(CRAN))';; \
			peers) size='--rows 1_000_000 10_000_000 $(if $(CRAN),--cran $(CRAN))';; \
			profiles) size='--rows 10_000_000 --cells 1_000_000 --runs 30';; *) size=;; esac; \
		echo "== $$name"; $(BIN)/python "$$script" $$size --out ".bench/$$name.json"; done
	$(BIN)/python benchmarks/page.py --results .bench --page .bench/RESULTS.md

test-mutations: $(STAMP)  ## break the package in one place at a time and see that tests notice; an hour
	$(BIN)/python tests/mutations/run.py

clean:  ## remove what the targets above made
	rm -rf $(VENV) tests/node_modules build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .demo .bench *.egg-info
