"""``python -m seamark`` is the ``seamark`` command."""

from __future__ import annotations

from seamark.cli.main import main

if __name__ == "__main__":
    main()
