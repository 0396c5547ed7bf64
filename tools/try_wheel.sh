#!/bin/sh
# Builds the source distribution and from it the wheel, looks at what is in them, installs the wheel with its locked
# dependencies into an empty environment, and checks what came: the bare install stays light and is what the wheel's bill
# of materials says. Licences are checked by tests/unit/test_dependencies.py.
set -eu
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
.venv/bin/python -m build --quiet --no-isolation --outdir "$place/dist" .
.venv/bin/python - "$place"/dist/* <<'END'
import sys
import tarfile
import zipfile

whl, tar = sorted(sys.argv[1:], key=lambda name: not name.endswith(".whl"))
expected = {
    whl: {"seamark"},
    tar: {"src", "requirements", "tools", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore"},
}
tops = {
    whl: {name.split("/")[0] for name in zipfile.ZipFile(whl).namelist() if ".dist-info/" not in name},
    tar: {name.split("/")[1] for name in tarfile.open(tar).getnames()},
}
assert tops == expected, tops
END
.venv/bin/python -m venv --without-pip "$place/venv"
install() { .venv/bin/python -m pip --python "$place/venv" install --quiet --disable-pip-version-check "$@"; }
.venv/bin/python -m tools.locked required > "$place/required.lock"
install --require-hashes --only-binary=:all: -r "$place/required.lock"
# Without an index: what the wheel needs must be there already.
install --no-index "$place"/dist/*.whl
cd "$place"
"$place/venv/bin/seamark" --version
"$place/venv/bin/python" - <<'END'
import importlib.resources
import importlib.util
import json
import sys
from importlib.metadata import distribution, distributions

import seamark
import seamark.wire.protocol.frames
import seamark.wire.records

heavy = {"numba", "numpy", "pyarrow", "pyspark", "pandas"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert not any(importlib.util.find_spec(name) for name in heavy), "the bare install brought a heavy package"
assert (importlib.resources.files(seamark) / "py.typed").is_file()
try:
    import seamark.wire.columns.columns  # noqa: F401
except seamark.errors.MissingExtra as error:
    assert "seamark[arrow]" in str(error), error
else:
    raise AssertionError("columns must ask for the arrow extra")
bill = json.loads(distribution("seamark").read_text("sboms/sbom.cdx.json"))
listed = {each["name"]: each["version"] for each in bill["components"] if each["scope"] == "required"}
installed = {each.name.lower().replace("_", "-"): each.version for each in distributions()}
del installed["seamark"]
# The bill is for all systems: a component with a marker may be for another one than this.
elsewhere = {each["name"] for each in bill["components"] if "properties" in each}
assert installed.items() <= listed.items(), installed.items() - listed.items()
assert listed.keys() - installed.keys() <= elsewhere, listed.keys() - installed.keys()
print(f"wheel: brings {len(installed)} packages, those of its bill of materials: {', '.join(sorted(installed))}")
print("wheel: imports without numba, pyarrow and pyspark; columns asks for seamark[arrow]")
END
