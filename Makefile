# Everything a developer does with Relay. Needs Python 3.11 or newer and make.
#
#   make demo    a real executor dies, its workflow is finished elsewhere; you watch
#   make run     Relay on 127.0.0.1:8090, data under ./.relay/
#   make check   format, lint, types, import contracts
#   make test    all tests, and that those of the core reach every branch of it;
#                make test TESTS=tests/hub  only some
#   make bench   what Relay costs, beside what the machine can do; a quarter of an hour
#                make bench BENCH="--only idle --executors 2000"  less of it
#   make compatibility   writes docs/compatibility.md: every operation, every SDK

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
TOOLS  := .cache/tools
TESTS  ?= tests
# The acceptance tests wait for processes most of the time, so more workers than cores.
WORKERS ?= 4

# What decides, without I/O: wrong here is wrong everywhere, so its own tests have to
# take every branch.
CORE       := relay.liveness relay.recovery.policy relay.recovery.transitions \
              relay.recovery.brake relay.census.policy relay.census.sides \
              relay.protocol relay.access
CORE_TESTS := tests/liveness tests/recovery/test_policy.py \
              tests/recovery/test_transitions.py tests/recovery/test_brake.py \
              tests/census/test_policy.py tests/census/test_sides.py \
              tests/protocol tests/test_access.py

.DEFAULT_GOAL := help
.PHONY: help demo run test bench compatibility core check format lock build clean

help:
	@sed -n 's/^#   //p' Makefile

# The lock file's environment: made anew only when the lock changes.
$(VENV)/.locked: requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Relay needs Python 3.11 or newer; \`$(PYTHON)\` is:" \
	    "$$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "\`$(PYTHON)\` has no venv module (on Debian: apt install python3-venv)" >&2; \
	  exit 1; }
	@echo "building the environment in $(VENV) (a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes --requirement requirements/dev.txt
	@touch $@

# The project itself, editable; again when its metadata changes.
$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(VENV)/.installed
	@$(BIN)/python -m demo

run: $(VENV)/.installed
	@$(BIN)/relay serve

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(TESTS)
ifeq ($(TESTS),tests)
	@$(MAKE) --no-print-directory core
endif

bench: $(VENV)/.installed
	@$(BIN)/python -m bench $(BENCH)

compatibility: $(VENV)/.installed
	WRITE_COMPATIBILITY=1 $(BIN)/python -m pytest tests/acceptance/operations

core: $(VENV)/.installed
	@echo "every branch of the core, by the core's own tests: $(CORE)"
	@$(BIN)/python -m pytest --quiet $(CORE:%=--cov=%) --cov-branch \
	  --cov-report=term-missing:skip-covered --cov-fail-under=100 $(CORE_TESTS)

check: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

build: $(VENV)/.installed
	$(BIN)/python -m build --no-isolation --outdir dist .

$(TOOLS)/bin/uv:
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check uv

# Pins with hashes, for every platform, and without the address of any index.
lock: $(TOOLS)/bin/uv
	@for set in server build dev executor-python-2.31.1 generated-client node; do \
	  echo "locking requirements/$$set.txt"; \
	  $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 \
	    --generate-hashes --no-header --no-annotate --upgrade \
	    --output-file requirements/$$set.txt requirements/$$set.in || exit 1; \
	done
	@for set in 5.2.11 4.27.6; do \
	  (cd tests/acceptance/typescript-$$set && rm -f package-lock.json && \
	    npm install --package-lock-only --ignore-scripts) || exit 1; \
	done
	@cd tests/acceptance/executors/go && GOTOOLCHAIN=local go mod tidy

clean:
	rm -rf $(VENV) .cache .relay dist .mypy_cache .ruff_cache .pytest_cache
