# Every target works from a bare clone: it needs make, and Python 3.11 or newer with venv and pip.
# The first run of a target installs what that target needs into .venv; later runs start at once, until
# a pyproject.toml or constraints.txt changes.

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow chaos parity lint format bench bench-attention wheel clean

PYTHON ?= $(shell python3.11 -c 'print("python3.11")' 2>/dev/null || echo python3)
WORKERS ?= 2
DEVICE ?= cpu

python := .venv/bin/python
wheel_python := .venv-wheel/bin/python
# Twice quiet: pip's warnings about the index of some machines are noise to who runs this; its errors and its retries show.
pip_install := -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt
# One thread a worker: two workers on two cores are faster than two workers that fight for them. What Python compiles is kept,
# whatever else is set: to read the tests anew each time would take each worker many seconds.
pytest := -m pytest --numprocesses $(WORKERS) --dist worksteal
one_thread := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1 \2/p' Makefile | while read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

# LAYER is a folder or a file of tests/, or of the lectures' tests: lectures, lectures/test_figures.py
layer = $(if $(filter lectures lectures/%,$(LAYER)),$(patsubst lectures%,lectures/tests%,$(LAYER)),$(LAYER:%=tests/%))

demo: .venv/.stamp-run ## the main job: load a model that ships and draw what it attends to
	@$(python) -m regard demo

test: .venv/.stamp-dev ## the quick tests; of one layer: make test LAYER=nn (WORKERS=2)
	@$(if $(LAYER),,$(call with_node,test))
	$(one_thread) $(python) $(pytest) $(layer)

test-slow: .venv/.stamp-dev ## the slow tests; of one layer: make test-slow LAYER=nn
	$(one_thread) $(python) $(pytest) -m slow $(layer) || test $$? -eq 5 # 5: there are none

chaos: .venv/.stamp-dev ## kill training runs anywhere, fill the disk, and compare what comes out (slow)
	$(one_thread) $(python) -m pytest -m slow -s tests/train/test_chaos.py

parity: .venv/.stamp-dev ## every comparison with the references, slow ones too (DEVICE=cpu)
	$(one_thread) $(python) $(pytest) -m "" --device $(DEVICE) tests/parity

lint: .venv/.stamp-dev ## ruff, mypy --strict on the sources; eslint and tsc --strict on the page
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy
	@$(call with_node,lint)

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
wheel: ## build both wheels into dist/, install them in a fresh .venv-wheel, run the tests against them
	rm -rf build lectures/build dist .venv-wheel
	@$(check_python)
	$(PYTHON) -m venv .venv-wheel
	$(wheel_python) $(pip_install) setuptools
	$(wheel_python) -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist . ./lectures
	rm -rf build lectures/build
	$(wheel_python) $(pip_install) dist/regard-*.whl
	$(wheel_python) -I -m regard demo
	$(wheel_python) $(pip_install) dist/regard_lectures-*.whl
	$(wheel_python) -I tests/check_wheel.py
	wheel=$$(echo ./dist/regard-*.whl) && $(wheel_python) $(pip_install) "$$wheel[dev,parity,serve]"
	$(one_thread) $(wheel_python) -P $(pytest)
	$(wheel_python) -I tests/check_wheel.py

# The page's JavaScript is checked by tools of its own; the page needs none of them. Where node is missing, or too old for
# them, this says so and goes on.
with_node = if node -e 'const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)' 2> /dev/null && command -v npm > /dev/null; \
	then $(MAKE) --no-print-directory node_modules/.stamp && npm run --silent $(1); \
	else echo "node 20.19 or newer and npm are not here: the page's JavaScript is not checked ($(1))"; fi

node_modules/.stamp: package.json package-lock.json
	@echo "Installing the tools for the page's JavaScript into node_modules."
	@npm ci --silent
	@touch $@

clean: ## remove what was built and the caches, but not .venv and node_modules
	rm -rf build lectures/build dist .venv-wheel .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info lectures/src/*.egg-info
	find src lectures tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

check_python = $(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("regard needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ". Name another one: make PYTHON=/path/to/python3.11 ...")'

.venv/.stamp-venv:
	@$(check_python)
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.stamp-run: .venv/.stamp-venv pyproject.toml lectures/pyproject.toml constraints.txt
	@echo "Installing regard, its lectures and what they need into .venv. torch is large: the first time takes some minutes."
	@$(python) $(pip_install) setuptools
	@$(python) $(pip_install) --no-build-isolation --editable . --editable ./lectures
	@touch $@

.venv/.stamp-dev: .venv/.stamp-run
	@echo "Installing the tools for tests and linting into .venv."
	@$(python) $(pip_install) --no-build-isolation --editable ".[dev,parity,serve]" --editable ./lectures
	@touch $@

.venv/.stamp-bench: .venv/.stamp-run
	@echo "Installing the peers for benchmarks into .venv."
	@$(python) $(pip_install) --no-build-isolation --editable ".[bench]" --editable ./lectures
	@touch $@
