# Every target works from a fresh clone: .venv is made by tools/bootstrap.sh when it is missing or out of date.
.DEFAULT_GOAL := help
.PHONY: help setup run test check docs soak bench wheel lock clean

NAME ?=
PYTEST_ARGS ?=
bin := .venv/bin

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv with the locked dependencies (done by the others when needed)
	@tools/bootstrap.sh

run: setup ## the quickstart: everything at work, in a minute or two
	@tools/run.sh

# Three workers on two cores: nearly half of the time a test waits, for a server to start or a session to end.
test: setup ## all tests with sampled counts, at most 15 minutes on 2 cores
	@$(bin)/python -m pytest --numprocesses=3 --dist=loadgroup $(PYTEST_ARGS)

check: setup ## lint, format, types, layers
	@$(bin)/ruff check .
	@$(bin)/ruff format --check .
	@$(bin)/mypy
	@$(bin)/lint-imports --no-cache

docs: setup ## the documents and the reference as pages in build/docs; broken links are errors
	@$(bin)/python -m tools.build_docs

soak: setup ## an issue's full counts, one JSON line at the end: make soak NAME=wire
	@$(bin)/python -m tests.soak "$(NAME)"

bench: setup ## benchmarks beside their peers, one JSON line per claim: make bench [NAME=wire]
	@$(bin)/python -m benchmarks "$(NAME)"

wheel: setup ## build the wheel and try it in an empty environment
	@tools/try_wheel.sh

compile := $(bin)/uv pip compile --quiet --universal --upgrade --only-binary pure-sasl --generate-hashes --no-emit-index-url \
  --no-header --python-version 3.11

lock: setup ## resolve requirements anew from pyproject.toml: the locks and the bill of materials
	@$(bin)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/locker.lock
	@$(compile) pyproject.toml --group dev --all-extras --output-file requirements/dev.lock
	@$(compile) --group installer --output-file requirements/installer.lock
	@$(compile) --group locker --output-file requirements/locker.lock
	@tools/bootstrap.sh
	@$(bin)/python -m tools.sbom

clean: ## remove .venv and what the tools left
	@rm -rf .venv build dist .mypy_cache .ruff_cache .hypothesis .import_linter_cache
