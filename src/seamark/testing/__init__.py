"""For tests of people who use Seamark: pytest fixtures with a real broker behind them, and ``check`` for handlers.

Nothing of Seamark is loaded before it is asked for: the fixtures are part of every run of pytest.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.testing.check_handler import CheckFailed, check
    from seamark.testing.check_report import Report

__all__ = ["CheckFailed", "Report", "check"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from seamark.testing import check_handler

    return getattr(check_handler, name)
