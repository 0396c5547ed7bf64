"""Runs the quickstart in a terminal of 80 columns and puts what stands on the screen into the documents.

    .venv/bin/python -m tests.quickstart.show

writes the blocks between the marks in README.md and docs/quickstart.md, and a picture of the report where there is a
Chromium. Read the difference before it is committed: the times in it are those of this machine.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tests.support.terminal import PseudoTerminal

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCUMENTS = (README, ROOT / "docs" / "quickstart.md")
PICTURE = ROOT / "docs" / "images" / "quickstart-report.png"
_BLOCK = re.compile(r"(<!-- quickstart -->\n).*?(<!-- end of quickstart -->)", re.DOTALL)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Bars are drawn with it, and taken away when their step has ended.
_BAR = "━"


def final_screen(text: str) -> str:
    """What is left standing of all that a terminal was sent."""
    lines = (_ESCAPES.sub("", line.rpartition("\r")[2]).rstrip() for line in text.split("\n"))
    return "\n".join(line for line in lines if _BAR not in line).strip()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="seamark-quickstart-") as name:
        directory = Path(name)
        with PseudoTerminal([Path(sys.executable).with_name("seamark"), "quickstart"], 80, cwd=directory) as terminal:
            code = terminal.wait()
        screen = final_screen(terminal.text)
        print(screen)
        if code:
            return code
        for document in DOCUMENTS:
            text = document.read_text()
            # What to try next stands in the README anyway.
            shown = screen.partition("\n\nNext,")[0] if document == README else screen
            block = f"```text\n$ seamark quickstart\n{shown}\n```\n"
            changed, count = _BLOCK.subn(lambda found, block=block: found[1] + block + found[2], text)
            if count != 1:
                print(f"{document} has {count} places for the quickstart's screen instead of one", file=sys.stderr)
                return 1
            document.write_text(changed)
        _take_picture(directory / "seamark-quickstart" / "report.html")
    return 0


def _take_picture(report: Path) -> None:
    from playwright.sync_api import sync_playwright

    from tools.install_chromium import ChromiumMissing, chromium

    try:
        program = chromium()
    except ChromiumMissing as missing:
        print(f"no picture of the report: {missing}", file=sys.stderr)
        return
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 480})
        page.goto(report.as_uri())
        page.get_by_text("shipping").first.wait_for()
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
