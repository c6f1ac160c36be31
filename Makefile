# Fumarole: what can be done here. `make` alone lists it.

PYTHON ?= python3
export PYTHON
MAKEFLAGS += --no-print-directory
BIN := .venv/bin
COMPILED_FROM := $(wildcard src/fumarole/fastpath/*.pyx src/fumarole/fastpath/*.pxd src/fumarole/core/index.py)

.PHONY: help setup setup-test run test check bench fuzz lock clean

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

setup: .venv/.installed ## make .venv with the fumarole command in it

setup-test: setup ## the same, with what only the tests need
	@scripts/debian-packages test

run: setup ## a broker on 127.0.0.1:4222 with a live demonstration; Ctrl-C ends it
	@$(BIN)/fumarole demo

test: setup-test check ## every check and every test
	@$(BIN)/pytest -q

check: setup ## format, lint, types, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/pytest -q tests/test_layers.py

bench: setup ## every figure, measured beside its peer
	@$(BIN)/python bench/run.py

fuzz: setup ## random bytes against the parsers, for long
	@$(BIN)/python tests/fuzz/run.py

lock: ## choose the newest packages that pyproject.toml allows, into requirements.lock
	@scripts/step "Making build/uv" $(PYTHON) -m venv build/uv
	@scripts/step "Fetching uv" build/uv/bin/pip install --upgrade uv
	@scripts/step "Choosing versions" build/uv/bin/uv pip compile pyproject.toml --group dev --universal \
		--python-version 3.11 --generate-hashes --upgrade --custom-compile-command "make lock" -o requirements.lock

clean: ## remove everything that was made here
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info src/fumarole/fastpath/*.so
	find . -name __pycache__ -prune -exec rm -rf {} +

# Set-up in two steps, each repeated only when a file it is made from has changed.

.venv/.packages: requirements.lock
	@scripts/debian-packages build
	@scripts/step "Making .venv" $(PYTHON) -m venv .venv
	@scripts/step "Fetching Python packages" $(BIN)/pip install --disable-pip-version-check -r requirements.lock
	@touch $@

.venv/.installed: .venv/.packages pyproject.toml setup.py $(COMPILED_FROM)
	@scripts/step "Building fumarole" \
		$(BIN)/pip install --disable-pip-version-check --verbose --no-deps --no-build-isolation --editable .
	@sed -n 's/^ *fumarole: /  /p' build/setup.log
	@touch $@
