"""``make bench [NAME=…]``: run benchmarks and print one JSON line per claim.

Each name stands for one or more modules with a ``measure()`` that returns finished claims.
"""

import compileall
import importlib
import json
import sys
from pathlib import Path

import seamark

MODULES = {
    "wire": ["wire"],
    "columns": ["columns_arrow", "columns_objects"],
    "coordinator": ["coordinator"],
    "storage": ["storage"],
    "simulation": ["simulation"],
    "broker": ["broker"],
    "client": ["client"],
    "parallel": ["parallel_frontier", "parallel"],
    "monitor": ["monitor"],
    "spark_source": ["spark_source"],
    "offsets_lake": ["offsets_lake"],
    "moves": ["moves"],
    "hostile": ["hostile"],
}


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name and name not in MODULES:
        print(f"bench: there is no benchmark {name!r}; choose one of {', '.join(MODULES)}", file=sys.stderr)
        return 2
    # As every installer does: else, with PYTHONDONTWRITEBYTECODE, each process that a benchmark starts compiles it.
    compileall.compile_dir(Path(seamark.__file__).parent, quiet=2)
    for chosen in [name] if name else MODULES:
        for module in MODULES[chosen]:
            for claim in importlib.import_module(f"benchmarks.{module}").measure():
                print(json.dumps(claim), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
