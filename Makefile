# KernelMill. `make help` lists what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && { echo $$p; break; }; done)
TORCH := 2.13.0

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(VENV)/.ready ## Install what is needed: the system's part where root, the rest into .venv

$(VENV)/.ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.11-3.13 found; install one, or: make PYTHON=/path/to/python3"; exit 1; }
	@bash .make/system.sh
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import torch' 2>/dev/null || bash .make/torch.sh $(BIN)/python $(TORCH)
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@$(BIN)/python -m pip install --quiet --no-deps flashinfer-bench==0.1.2 # for the differential tests; its dependencies are not needed
	@touch $@

.PHONY: demo
demo: setup ## Judge the demo slice on this machine, print the leaderboard, write demo/report.html
	@$(BIN)/python -m kernelmill.evaluator.demo --out demo

.PHONY: engines
engines: setup ## Install vLLM and SGLang for the CPU into .engines, so that `make test` serves through them
	@bash .make/engines.sh $(PYTHON)

.PHONY: serve
serve: setup ## Run the service on this machine: API, site and evaluation, at http://127.0.0.1:8000
	@$(BIN)/kernelmill serve

.PHONY: check
check: setup ## Format, lint, types, architecture
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/architecture

.PHONY: test
test: setup ## The whole test suite
	@$(BIN)/python -m pytest

.PHONY: fix
fix: setup ## Format and mend what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: bench
bench: setup ## Measure loading a large dataset and what the judge itself costs
	@$(BIN)/python -m benchmarks.dataset_load
	@$(BIN)/python -m benchmarks.judge_cost

.PHONY: dataset
dataset: setup ## Make the shipped dataset from its sources; REQUESTS=DIR: workloads from the traces there; MUTANTS=--mutants
	@$(BIN)/python -m kernelmill.dataset.catalogue --out dataset/data
ifdef REQUESTS
	@$(BIN)/kernelmill derive --requests $(REQUESTS) --dataset dataset/data
else
	@echo "workloads stay as they are; to derive them again: make dataset REQUESTS=FOLDER (which files: dataset/data/DATA_LICENSES.md)"
endif
	@$(BIN)/python -m kernelmill.dataset.catalogue --out dataset/data --inventory docs/dataset.md
	@$(BIN)/kernelmill validate dataset/data --strict $(MUTANTS)

.PHONY: dist
dist: setup ## Build the sdist and the wheel
	@$(BIN)/python -m build --no-isolation

.PHONY: clean
clean: ## Remove what was built, not the environment
	@rm -rf dist build demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
