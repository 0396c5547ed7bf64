"""Where the quickstart puts things: names on the cluster and files in the output directory.

On a cluster of the user's every name begins with one prefix that nothing else has, so that what is removed at the end
is the quickstart's own. The output directory carries a mark; only a directory with the mark, an empty or a new one is
used, and of an earlier run only files that a run writes are removed.
"""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from seamark.errors import UsageError

_MARK = "quickstart.json"
_WRITTEN = (
    "broker", "checkpoint", "lake", "orders.parquet", "quickstart.log", "report.html", "rewind.json",
    "rewind.undo.json", "spark",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Names:
    """Topic and groups; ``prefix`` is empty on a broker that is the quickstart's own."""

    prefix: str = ""

    @classmethod
    def fresh(cls) -> Names:
        return cls(f"quickstart-{secrets.token_hex(3)}-")

    @property
    def topic(self) -> str:
        return f"{self.prefix}orders"

    @property
    def billing(self) -> str:
        return f"{self.prefix}billing"

    @property
    def shipping(self) -> str:
        return f"{self.prefix}shipping"

    @property
    def reports(self) -> str:
        return f"{self.prefix}reports"

    @property
    def spark(self) -> str:
        return f"{self.prefix}spark"

    @property
    def groups(self) -> tuple[str, ...]:
        return (self.billing, self.shipping, self.reports, self.spark)


@dataclass(frozen=True, slots=True)
class Places:
    """The output directory and what is in it."""

    out: Path

    @classmethod
    def prepare(cls, out: Path) -> Places:
        """Make the directory, or empty that of an earlier run; UsageError if it is somebody else's."""
        try:
            if out.exists() and not out.is_dir():
                raise UsageError(f"--out {out}: not a directory")
            if out.is_dir() and any(out.iterdir()) and not (out / _MARK).is_file():
                raise UsageError(f"--out {out}: contains other files; choose a new or an empty directory")
            out.mkdir(parents=True, exist_ok=True)
            places = cls(out)
            for name in _WRITTEN:
                places._remove(name)
            places.mark.write_text("{}\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--out {out}: cannot be written ({error.strerror})") from None
        return places

    def _remove(self, name: str) -> None:
        path = self.out / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def clear_scratch(self) -> None:
        """Remove what nobody looks at afterwards."""
        self._remove("spark")
        self._remove("checkpoint")

    @property
    def mark(self) -> Path:
        return self.out / _MARK

    @property
    def broker(self) -> Path:
        return self.out / "broker"

    @property
    def log(self) -> Path:
        return self.out / "quickstart.log"

    @property
    def plan(self) -> Path:
        return self.out / "rewind.json"

    @property
    def lake(self) -> Path:
        return self.out / "lake"

    @property
    def report(self) -> Path:
        return self.out / "report.html"

    @property
    def parquet(self) -> Path:
        return self.out / "orders.parquet"

    @property
    def checkpoint(self) -> Path:
        return self.out / "checkpoint"

    @property
    def spark(self) -> Path:
        return self.out / "spark"
