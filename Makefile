# Gridstride: `make install`, `make demo`, `make test`, `make lint`, `make clean`.
# Needs Python 3.11 or newer and a network the first time; no compiler, no GPU, no CUDA toolkit.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install
OUT ?= out
# In worker processes, so that code that crashes one is a failed test and not the end of the run.
PYTEST_ARGS ?= -n auto

# A stamp says which dependencies are installed, so that a second run starts at once; it is written last, so that
# an interrupted installation is taken up again.
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev

.PHONY: install demo test test-long test-checks lint clean

install: $(INSTALLED)

demo: $(INSTALLED)
	$(BIN)/gridstride pipeline --demo -o $(OUT)

test: lint
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# What `make test` leaves out because it takes long.
test-long: $(INSTALLED_DEV)
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m long

# The tests of the engine once more, with all checks on: correct kernels must give no error.
test-checks: $(INSTALLED_DEV)
	GRIDSTRIDE_TEST_CHECKS=1 $(BIN)/python -m pytest $(PYTEST_ARGS) tests/engine tests/engine_coverage tests/truth_set/test_outputs.py tests/pipeline

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/mypy

$(INSTALLED): pyproject.toml | $(BIN)/python
	$(PIP) -e '.[image]'
	touch $@

$(INSTALLED_DEV): pyproject.toml $(INSTALLED)
	$(PIP) -e '.[image,python,libs,cluster,dev]'
	touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: $(PYTHON) is not Python 3.11 or newer; name one that is: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) $(OUT) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
