# `make` lists the targets. Everything runs in .venv, which is made when it is missing, or older than pyproject.toml
# or the lock files. Only what these contain, with its hash, is installed.

PYTHON ?= python3
EXTRAS ?= dev,client,granian

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed-$(EXTRAS)

# The locks: a file for each extra, one for what builds miniqueue, and one for the tools that make locks (.ci/lock).
# Locks are complete, so pip resolves nothing (--no-deps): old ones take a newer release for a requirement with an
# extra, such as coverage[toml], and then reject it because no hash is locked.
COMMA := ,
BUILD_LOCK := .ci/locks/build.lock
LOCKS := $(patsubst %,.ci/locks/%.lock,$(subst $(COMMA), ,$(EXTRAS)))
TOOLS := $(VENV)/tools

# How many tests run at a time (PROCESSES=2): four on two cores, since they wait for processes and disks two fifths of
# the time. The tests of a file run in one process: they share what is slow to start (tests/scheduling.py).
PROCESSES ?= 4
BY_FILE := --dist=loadfile --no-loadscope-reorder

# A process of tests that ends, or is ended since it stands still (tests/overseeing.py), is replaced once.
RESTARTS := --max-worker-restart=1

# The tests start hundreds of processes: what those import is compiled once, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE

# The wheels in the one file are for these platforms, whichever machine builds it: a number is the oldest glibc.
PLATFORMS := $(patsubst %,--platform=manylinux%_x86_64,_2_28 _2_27 _2_24 _2_17 2014 _2_12 2010 _2_5 1)

# How often `make soak` compares the broker with its model, and for how long it fuzzes each parser.
MODEL_RUNS := 20000
FUZZ_SECONDS := 600

.DEFAULT_GOAL := help
.PHONY: help install run test test-spark image-test planted soak lint bench binary lock audit release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## make .venv with miniqueue and its tools in it (EXTRAS=dev,client,granian,spark for all)

$(INSTALLED): pyproject.toml client/pyproject.toml $(BUILD_LOCK) $(LOCKS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-deps --require-hashes --requirement=$(BUILD_LOCK)
	$(BIN)/pip install --quiet --no-deps --require-hashes --no-build-isolation $(LOCKS:%=--requirement=%)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable ./client --editable .
	$(BIN)/pip check --quiet
	touch $@

$(TOOLS)/.installed: .ci/locks/tools.lock
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --no-deps --require-hashes --requirement=$<
	touch $@

run: install ## start the broker (ARGS='-port 9000 …')
	$(BIN)/miniqueue -human $(ARGS)

test: install ## run all tests, up to 30 minutes on 2 cores, and check what they cover; or some (ARGS=tests/core)
	$(BIN)/python -m pytest $(if $(ARGS),,--cov --cov-report= $(RESTARTS)) --numprocesses=$(PROCESSES) $(BY_FILE) $(ARGS)
	$(if $(ARGS),,$(BIN)/coverage report --fail-under=95)

test-spark: ## run the Spark tests, and record that its jobs pass; requires Java 17 (ARGS as for test)
	$(MAKE) install EXTRAS=dev,client,granian,spark
	$(BIN)/python -m miniqueue.tools.spark.needs
	$(BIN)/python -m pytest tests/spark $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m tests.proofs spark_jobs --numprocesses=$(PROCESSES))

image-test: install ## build the image and run it without rights; requires root, buildah, podman, runc, mmdebstrap
	$(BIN)/python -m pytest tests/containers/soak_image.py $(ARGS)

planted: install ## plant bugs that the tests must find, and record the sources in which they did; on a quiet machine
	$(BIN)/python -m tests.proofs planted --numprocesses=$(PROCESSES)

soak: install ## crash the broker for hours, and count what is lost (ARGS='kill --count 50', ARGS=--help lists more)
	$(if $(ARGS),,$(BIN)/python -m tests.proofs planted --numprocesses=$(PROCESSES))
	$(if $(ARGS),,$(BIN)/python -m tests.model.soak --runs $(MODEL_RUNS))
	$(if $(ARGS),,$(BIN)/python -m pytest -m hypothesis --hypothesis-profile=other --timeout=3600 --quiet)
	$(if $(ARGS),,$(BIN)/python -m pytest tests/broker/runtime/soak_interrupted_acts.py --quiet)
	$(if $(ARGS),,$(BIN)/python -m pytest tests/transcripts/soak_garbage.py --quiet)
	$(if $(ARGS),,$(BIN)/python -m tests.fuzz.soak --seconds $(FUZZ_SECONDS))
	$(if $(ARGS),,$(BIN)/python -m pytest tests/acceptance/faults/test_resp_floods.py --quiet --capture no)
	$(if $(ARGS),,$(BIN)/python -m pytest tests/containers/soak_image.py --quiet)
	$(if $(ARGS),,$(if $(findstring spark,$(EXTRAS)),$(BIN)/python -m pytest tests/spark/cluster/soak_*.py --quiet))
	$(BIN)/python -m tests.durability.soak $(ARGS)

lint: install ## check style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy --python-version=3.10 client/src

bench: ## measure speed, also of Spark with EXTRAS=dev,client,granian,spark (ARGS=--quick takes minutes; ARGS=--help)
	$(MAKE) install EXTRAS=$(EXTRAS),bench
	$(BIN)/python -m benchmarks $(ARGS)

binary: install ## build one file with everything in it, dist/miniqueue-<version>-linux-x86_64 (docs/binary.md)
	rm -rf build/wheels
	$(BIN)/pip download --quiet --no-deps --require-hashes --only-binary=:all: --implementation=cp \
		--python-version=3.11 $(PLATFORMS) --dest=build/wheels --requirement=.ci/locks/binary.lock
	env --ignore-environment PATH="$$PATH" PYTHONPATH=.ci PYTHONHASHSEED=0 \
		/usr/bin/python3.11 -B .ci/binary/build.py build/wheels dist

lock: $(TOOLS)/.installed ## lock what pyproject.toml requires (ARGS='--upgrade-package h2', ARGS=--upgrade for all)
	.ci/lock $(TOOLS)/bin/pip-compile $(ARGS)

audit: $(TOOLS)/.installed ## check the locked versions for known vulnerabilities (ARGS=--ignore-vuln=<id>)
	$(PYTHON) .ci/audit.py $(TOOLS)/bin/pip-audit .ci/locks/*.lock $(ARGS)

release: install ## check, build, and tag a release; pushes nothing (ARGS=--dry-run shows the steps)
	$(BIN)/python .ci/release.py $(ARGS)

clean: ## remove .venv and everything that was built or cached; keeps data/ and certs/
	rm -rf $(VENV) build client/build dist miniqueue.egg-info client/src/miniqueue_client.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
	rm -rf tests/acceptance/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
