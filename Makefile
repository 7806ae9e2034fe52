# Everything a fresh machine needs: Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# A module is compiled when it is first imported, as most never are.
INSTALL := install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
PIP    := $(BIN)/pip $(INSTALL)
# The same pip for an environment that has nothing, not even pip.
EMPTY  := $(BIN)/pip --python .wheel/empty/bin/python $(INSTALL)

# Container images often forbid Python to keep compiled modules. Then every process would compile torch again.
unexport PYTHONDONTWRITEBYTECODE

# What `make serve` passes on, such as OPTIONS="--single-user --port 9000".
OPTIONS ?=

# What tests may need beyond Python and torch: tests/resources.py.
RESOURCES := browser coq postgres process training models
# A PostgreSQL server for one command, where Debian's tools are.
DATABASE = $(if $(shell command -v pg_virtualenv),pg_virtualenv -o fsync=off -o autovacuum=off,)

.PHONY: demo serve test test-all test-machine machine check lint types docs wheel extras screenshots bench clean

demo: $(VENV)/.core
	$(BIN)/exactformer demo --force

serve: $(VENV)/.studio
	@$(BIN)/exactformer serve $(OPTIONS)

# What needs Python and torch alone; nothing is installed outside of .venv. At its end it says what `make check` adds.
test: $(VENV)/.compiled
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto -m "not slow $(foreach resource,$(RESOURCES),and not $(resource))"

test-all: $(VENV)/.compiled machine
	HYPOTHESIS_PROFILE=thorough OMP_NUM_THREADS=1 $(DATABASE) $(BIN)/pytest -n auto -m "slow or not slow"

# All that is not slow, with the machine's browser, Coq and database.
test-machine: $(VENV)/.compiled
	OMP_NUM_THREADS=1 $(DATABASE) $(BIN)/pytest -n auto -m "not slow"

# Chromium, Coq and PostgreSQL from Debian's packages, for the whole machine: as root.
machine:
	@sh tests/install.sh || true

# Lint first: it fails in seconds. The others share the cores, unless make was told how many jobs it may run.
check: lint machine
	@$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,--jobs 3) test-machine docs types

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

docs: $(VENV)/.compiled
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir .site

# The package as a stranger gets it: built, installed into an empty environment, its demo run there, and
# the demo's law written for Coq with the library's sources.
wheel: | $(BIN)/pip
	rm -rf .wheel
	$(PYTHON) -m venv --without-pip .wheel/empty
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir .wheel .
	$(EMPTY) .wheel/*.whl
	cd .wheel && empty/bin/exactformer demo --points 20000
	cd .wheel && empty/bin/exactformer prove demo/law.safetensors --library coq-library

# Whether each extra can be installed by itself.
extras: wheel
	for extra in cluster interpretability onnx models studio postgres parquet reproduce; do \
		$(EMPTY) --dry-run "$$(echo .wheel/*.whl)[$$extra]" || exit 1; done

# Pictures of pages of the studio, for its guide; NAMES="home map" takes some of them.
screenshots: $(VENV)/.dev machine
	$(BIN)/python -m tests.studio.support.screenshots $(NAMES)

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .site .wheel .pytest_cache .mypy_cache .ruff_cache

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

# The stamps change when the dependencies do, so a second call installs nothing. What needs more than the
# core gives it EXTRAS, and a call of pip fewer is made; the stamp says which it had.
EXTRAS :=
$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing exactformer and its dependencies into $(VENV) (a few minutes, once) ..."
	$(PIP) --editable ".$(EXTRAS)"
	@echo "$(EXTRAS)" >$@

$(VENV)/.studio: EXTRAS := [studio]
$(VENV)/.studio: $(VENV)/.core
	@grep -qxF "$(EXTRAS)" $< || { echo "Installing the studio ..." && $(PIP) --editable ".$(EXTRAS)"; }
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PIP) --editable ".[bench]"
	@touch $@

$(VENV)/.dev: EXTRAS := [dev,docs]
$(VENV)/.dev: $(VENV)/.core
	@grep -qxF "$(EXTRAS)" $< || { echo "Installing what tests, checks and docs need ..." && \
		$(PIP) --editable ".$(EXTRAS)"; }
	@touch $@

# Python compiles what it imports first. Tests and docs begin together, and each would compile torch.
$(VENV)/.compiled: $(VENV)/.dev
	@$(BIN)/python docs/forks.py
	@touch $@
