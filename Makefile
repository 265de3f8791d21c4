# Every target works from a bare clone: it needs make, and Python 3.11 or newer with venv and pip.
# The first run of a target installs what that target needs into .venv; later runs start at once, until
# pyproject.toml or constraints.txt changes.

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow chaos parity lint format bench bench-attention wheel clean

PYTHON ?= $(shell python3.11 -c 'print("python3.11")' 2>/dev/null || echo python3)
WORKERS ?= 2
DEVICE ?= cpu

python := .venv/bin/python
wheel_python := .venv-wheel/bin/python
# Twice quiet: pip's warnings about the index of some machines are noise to who runs this; its errors and its retries show.
pip_install := -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt
# One thread a worker: two workers on two cores are faster than two workers that fight for them.
pytest := -m pytest --numprocesses $(WORKERS) --dist worksteal
one_thread := OMP_NUM_THREADS=1

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1 \2/p' Makefile | while read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

demo: .venv/.stamp-run ## the main job: load a model that ships and draw what it attends to
	@$(python) -m regard demo

test: .venv/.stamp-dev ## the quick tests (WORKERS=2)
	$(one_thread) $(python) $(pytest)

test-slow: .venv/.stamp-dev ## the slow tests
	$(one_thread) $(python) $(pytest) -m slow || test $$? -eq 5 # 5: there are none

chaos: .venv/.stamp-dev ## kill training runs anywhere, fill the disk, and compare what comes out (slow)
	$(one_thread) $(python) -m pytest -m slow -s tests/train/test_chaos.py

parity: .venv/.stamp-dev ## every comparison with the references, slow ones too (DEVICE=cpu)
	$(one_thread) $(python) $(pytest) -m "" --device $(DEVICE) tests/parity

lint: .venv/.stamp-dev ## ruff, and mypy --strict on src
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy

format: .venv/.stamp-dev ## let ruff format and mend what it can
	$(python) -m ruff check --fix .
	$(python) -m ruff format .

bench: .venv/.stamp-bench ## speed and memory against the peers
	$(python) -m benchmarks

bench-attention: .venv/.stamp-bench ## each attention alone: time and memory against the length, and against the peers
	$(python) -m benchmarks.attention
	$(python) -m benchmarks.reversible

# A fresh environment, in two steps: first with the run-time dependencies alone, where the main job must work; then with the
# tests' own, which run once against the installed wheel.
wheel: ## build the wheel into dist/, install it in a fresh .venv-wheel, run the tests against it
	rm -rf build dist .venv-wheel
	@$(check_python)
	$(PYTHON) -m venv .venv-wheel
	$(wheel_python) $(pip_install) setuptools
	$(wheel_python) -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .
	rm -rf build
	$(wheel_python) $(pip_install) dist/regard-*.whl
	$(wheel_python) -I tests/check_wheel.py
	$(wheel_python) -I -m regard demo
	wheel=$$(echo ./dist/regard-*.whl) && $(wheel_python) $(pip_install) "$$wheel[dev,parity,serve]"
	$(one_thread) $(wheel_python) -P $(pytest)
	$(wheel_python) -I tests/check_wheel.py

clean: ## remove what was built and the caches, but not .venv
	rm -rf build dist .venv-wheel .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

check_python = $(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("regard needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ". Name another one: make PYTHON=/path/to/python3.11 ...")'

.venv/.stamp-venv:
	@$(check_python)
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.stamp-run: .venv/.stamp-venv pyproject.toml constraints.txt
	@echo "Installing regard and what it needs into .venv. torch is large: the first time takes some minutes."
	@$(python) $(pip_install) setuptools
	@$(python) $(pip_install) --no-build-isolation --editable .
	@touch $@

.venv/.stamp-dev: .venv/.stamp-run
	@echo "Installing the tools for tests and linting into .venv."
	@$(python) $(pip_install) --no-build-isolation --editable ".[dev,parity,serve]"
	@touch $@

.venv/.stamp-bench: .venv/.stamp-run
	@echo "Installing the peers for benchmarks into .venv."
	@$(python) $(pip_install) --no-build-isolation --editable ".[bench]"
	@touch $@
