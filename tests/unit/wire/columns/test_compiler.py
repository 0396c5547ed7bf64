"""How the kernels come into a process: compiled with one line on stderr, then from the cache in silence."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark.wire.columns.columns import decode_columns
from seamark.wire.records import Record, encode_batch

DECODE = """
from seamark.wire.columns.columns import COLUMN_NAMES, decode_columns
from seamark.wire.records import Record, encode_batch
decoded = decode_columns(encode_batch([Record(5, 0, value=b"v", headers=[("h", b"1")])]), columns=COLUMN_NAMES)
print(decoded.batch["value"].to_pylist(), decoded.batch["headers"].to_pylist())
"""
PRINTED = "[b'v'] [[{'key': 'h', 'value': b'1'}]]\n"


def run(code, cache):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    cache = tmp_path_factory.mktemp("kernels")
    return run(DECODE, cache), cache


def test_a_compile_says_one_line_however_many_kernels_it_takes(cold):
    process, _ = cold
    assert (process.returncode, process.stdout) == (0, PRINTED)
    assert process.stderr.splitlines() == [
        "compiling the Arrow column decoder for this processor; later starts load it from numba's cache"
    ]


def test_a_later_process_loads_the_kernels_in_silence(cold):
    _, cache = cold
    process = run(DECODE, cache)
    assert (process.returncode, process.stdout, process.stderr) == (0, PRINTED, "")


def test_a_damaged_cache_is_compiled_around(cold, tmp_path):
    _, cache = cold
    damaged = 0
    for kept in cache.rglob("*.nb?"):
        copy = tmp_path / kept.relative_to(cache)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(kept.read_bytes()[:40])
        damaged += 1
    assert damaged >= 4
    process = run(DECODE, tmp_path)
    assert (process.returncode, process.stdout) == (0, PRINTED)
    assert process.stderr.count("\n") == 1


def test_where_no_directory_can_keep_a_cache_it_is_done_without(tmp_path):
    nowhere = "from numba.core.caching import CacheImpl; CacheImpl._locator_classes = []"
    process = run(nowhere + DECODE, tmp_path)
    assert (process.returncode, process.stdout) == (0, PRINTED)
    assert process.stderr.count("\n") == 1


@pytest.mark.parametrize("package", ["numba", "numpy", "pyarrow"])
def test_a_missing_package_is_named_with_the_extra_to_install(package, tmp_path):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "try:\n import seamark.wire.columns.columns\n"
        "except Exception as error: print(type(error), error)"
    )
    process = run(code, tmp_path)
    assert process.stdout == (
        "<class 'seamark.errors.MissingExtra'> "
        "decoding records to Arrow columns needs optional packages: pip install 'seamark[arrow]'\n"
    )


def test_records_as_objects_load_none_of_it(tmp_path):
    code = "import sys, seamark.wire.records; print(sorted({'numba', 'numpy', 'pyarrow'} & set(sys.modules)))"
    assert run(code, tmp_path).stdout == "[]\n"


def test_threads_may_decode_at_once():
    buffers = [encode_batch([Record(offset, 0, value=b"%d" % number) for offset in range(2000)]) for number in range(8)]
    with ThreadPoolExecutor(4) as threads:
        decoded = list(threads.map(decode_columns, buffers * 5))
    assert [set(one.batch["value"].to_pylist()) for one in decoded] == [{b"%d" % number} for number in range(8)] * 5
