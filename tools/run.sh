#!/bin/sh
# `make run`: the quickstart, on a fresh clone. Arguments are handed on: tools/run.sh --rows 1000
set -eu
cd "$(dirname "$0")/.."
exec .venv/bin/seamark quickstart --out build/quickstart "$@"
