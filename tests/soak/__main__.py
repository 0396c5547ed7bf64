"""``make soak NAME=…``: an issue's full counts. Each name is a module here with ``run(scale) -> dict``.

The result is printed as one JSON line; a run whose ``ok`` is not true exits with 1. ``SEAMARK_SOAK_SCALE`` (a fraction)
makes a run shorter, for trying it out.
"""

import importlib
import json
import os
import sys
from pathlib import Path


def main() -> int:
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem != "__main__")
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in names:
        print(f"soak: say NAME=… with one of {', '.join(names)}", file=sys.stderr)
        return 2
    result = importlib.import_module(f"tests.soak.{name}").run(float(os.environ.get("SEAMARK_SOAK_SCALE", "1")))
    print(json.dumps({"soak": name, **result}))
    return 0 if result["ok"] is True else 1


if __name__ == "__main__":
    sys.exit(main())
