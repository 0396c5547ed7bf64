"""Text that a peer sent, made fit for a log line or an error: in one line, printable, and not endless.

A host name, a topic or an error message may have any character. One that begins a new line could forge a line of the
log, one that moves the cursor could hide what a terminal shows, and a long one could fill the disk.
"""

from __future__ import annotations

MOST_CHARACTERS = 300


def one_line(text: str, most: int = MOST_CHARACTERS) -> str:
    r"""The text with escapes for what is not printable, cut behind ``most`` characters.

    >>> one_line("a\n\x1b[31mb"), one_line("x" * 12, most=10)
    ('a\\n\\x1b[31mb', 'xxxxxxxxxx... (12 characters)')
    """
    shown = text[:most]
    if not shown.isprintable():
        shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown)
    return shown if len(text) <= most else f"{shown}... ({len(text)} characters)"
