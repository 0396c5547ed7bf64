"""For tests of people who use Seamark: pytest fixtures with a real broker behind them, and ``check`` for handlers.

Nothing of Seamark is loaded before it is asked for: the fixtures are part of every run of pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.testing.check_handler import CheckFailed, check
    from seamark.testing.check_report import Failure, Report

_HOMES = {
    "seamark.testing.check_handler": ("CheckFailed", "check"),
    "seamark.testing.check_report": ("Failure", "Report"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CheckFailed",
    "Failure",
    "Report",
    "check",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
