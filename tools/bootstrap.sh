#!/bin/sh
# Makes .venv from a bare python3 and installs the locked dependencies and this package into it.
# Needs nothing but Python 3.11 to 3.13 with its venv module; every missing thing is answered with one sentence.
set -eu
cd "$(dirname "$0")/.."
# One stamp for what is installed and one for this package's own metadata: a change renews only what it concerns.
locked=.venv/.locked-$(cksum requirements/installer.lock requirements/dev.lock | cksum | cut -d' ' -f1)
declared=.venv/.declared-$(cksum < pyproject.toml | cut -d' ' -f1)
[ -e "$locked" ] && [ -e "$declared" ] && exit 0

say() { echo "seamark: $1" >&2; exit 1; }
install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@" >&2; }

# The first interpreter that is new enough wins; PYTHON=... overrides.
python=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
  if command -v "$candidate" >/dev/null 2>&1 &&
     "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  found=$(command -v "${PYTHON:-python3}" >/dev/null 2>&1 && "${PYTHON:-python3}" --version 2>&1 || echo "no python3")
  say "Python 3.11, 3.12 or 3.13 is needed but found $found; install one of them (Debian: apt install python3 python3-venv) or set PYTHON=/path/to/python."
fi
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
  say "the venv module of $("$python" --version 2>&1) is missing; install it (Debian: apt install python3-venv)."

if [ ! -e "$locked" ]; then
  [ -x .venv/bin/python ] || "$python" -m venv .venv || say "could not create .venv with $python; see the message above."
  echo "seamark: installing the locked dependencies into .venv (once)" >&2
  # The pip that came with Python does one thing: it installs the locked pip, which then installs the rest. Only wheels:
  # building one runs code, and fetches build tools that no hash covers. pyspark has none; the locked setuptools builds it.
  install --require-hashes --only-binary=:all: -r requirements/installer.lock ||
    say "pip could not install requirements/installer.lock; see its message above (is the package index reachable?)."
  install --require-hashes --only-binary=:all: --no-binary=pyspark --no-build-isolation -r requirements/dev.lock ||
    say "pip could not install requirements/dev.lock; see its message above (is the package index reachable?)."
  rm -f .venv/.locked-*
  touch "$locked"
fi
install --no-index --no-deps --no-build-isolation -e . ||
  say "pip could not install seamark itself into .venv; see its message above."
rm -f .venv/.declared-*
touch "$declared"
