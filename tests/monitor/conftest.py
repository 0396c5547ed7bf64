"""The command line, called in the test's own process and directory."""

from tests.support.commands import seamark

__all__ = ["seamark"]
