# Every target works from a clean checkout: it makes .venv, installs what it needs, and runs.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN = .venv/bin

.PHONY: run test test-slurm verify bench lint docs clean

run: .venv/installed  ## the cusp experiment on all chips: a first figure, then sweep, table and figure
	$(BIN)/warpsim experiment cusp --workers 2

test: .venv/installed-test  ## the tests, in two processes
	$(BIN)/python -m tests.support.compile_engine
	$(BIN)/pytest -n 2 --dist loadfile

test-slurm: .venv/installed-test  ## sweeps under a real Slurm of one node, where it can be installed and started (root, Debian)
	$(BIN)/pytest -m slurm -rs

verify: .venv/installed-test  ## the heavier statistical tests; mutants of the engine, of which the tests must notice all but a few
	$(BIN)/pytest -m verify
	$(BIN)/python -m tests.engine.mutation

bench: .venv/installed-test  ## speed of the engine and of the command line
	$(BIN)/pytest benchmarks -m bench --benchmark-columns=median,min,max

lint: .venv/installed-dev  ## style and types
	$(BIN)/ruff check
	$(BIN)/mypy

docs: .venv/installed-docs  ## the documentation site, into build/docs; warnings are errors
	$(BIN)/sphinx-build -W --keep-going -q -c docs -d build/doctrees . build/docs
	@echo "the site: build/docs/index.html"

clean:  ## remove everything that the targets made, except results
	rm -rf .venv build .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks

.venv/installed: WHAT = .[report,trace]
.venv/installed-test: WHAT = .[test]
.venv/installed-dev: WHAT = .[dev]
.venv/installed-docs: WHAT = .[docs]
.venv/installed .venv/installed-test .venv/installed-dev .venv/installed-docs: pyproject.toml
	@test -n "$(PYTHON)" || { echo "warpsim needs Python 3.11 or newer" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '$(WHAT)'
	@touch $@
