#!/bin/sh
# Builds the wheel, installs it into an empty environment and checks that the bare install stays light.
set -eu
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
.venv/bin/python -m build --quiet --wheel --no-isolation --outdir "$place/dist" .
.venv/bin/python -m venv "$place/venv"
"$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$place"/dist/*.whl
cd "$place"
"$place/venv/bin/seamark" --version
"$place/venv/bin/python" - <<'END'
import importlib.resources
import importlib.util
import sys

import seamark
import seamark.wire.frames
import seamark.wire.records

heavy = {"numba", "numpy", "pyarrow", "pyspark", "pandas"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert not any(importlib.util.find_spec(name) for name in heavy), "the bare install brought a heavy package"
assert (importlib.resources.files(seamark) / "py.typed").is_file()
try:
    import seamark.wire.columns  # noqa: F401
except seamark.errors.MissingExtra as error:
    assert "seamark[arrow]" in str(error), error
else:
    raise AssertionError("columns must ask for the arrow extra")
print("wheel: imports without numba, pyarrow and pyspark; columns asks for seamark[arrow]")
END
