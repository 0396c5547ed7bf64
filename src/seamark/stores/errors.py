"""Why an offset store did not do what it was asked; ``str()`` of each is one sentence, its fields are values.

SeamarkError
+- StoreError                  ``store`` is the store's name
   +- StoreUnavailable         it cannot be reached, or the connection was lost: trying again later may help
   +- StoreRefused             it will not do this: trying again does not help
   +- BadStore                 what is there is not a store of ours
"""

from __future__ import annotations

from seamark.errors import SeamarkError


class StoreError(SeamarkError):
    """A store failed; ``reason`` is the sentence without the store's name."""

    is_retriable = False

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(f"{store}: {reason}")
        self.store = store
        self.reason = reason

    def __reduce__(self) -> tuple[type[StoreError], tuple[str, str]]:
        return type(self), (self.store, self.reason)


class StoreUnavailable(StoreError):
    """The store cannot be reached now; what was asked may or may not have been done."""

    is_retriable = True


class StoreRefused(StoreError):
    """The store was reached and will not do it."""


class BadStore(StoreError):
    """The file or tree is not an offset store, is damaged, or was made by a newer release."""
