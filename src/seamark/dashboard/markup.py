"""HTML that cannot be broken out of: everything that is not ``Markup`` is text and is escaped.

Names of groups, topics and clients come from strangers. The only way to make ``Markup`` is ``tag`` (and ``joined``), so
a page has exactly the elements that the code names, whatever the names contain. Characters that would reorder or hide
text on the screen are shown as escapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from seamark.readable_text import readable

# A name may have 32 kB; a page of them must stay a page. Attributes and addresses keep the whole name.
_LONGEST = 500
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]


def tag(name: str, /, *children: Child, **attributes: object) -> Markup:
    """An element; ``class_`` and ``for_`` are written with an underscore, other ones stand for a dash.

    None and False leave an attribute out, True writes it without a value.

    >>> tag("a", "<b>", class_="x", href="/?a=1&b=2")
    '<a class="x" href="/?a=1&amp;b=2">&lt;b&gt;</a>'
    >>> tag("input", data_key="k", disabled=True, checked=False)
    '<input data-key="k" disabled>'
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-")
        parts.append(f" {shown}" if value is True else f' {shown}="{escape(_encodable(str(value)))}"')
    parts.append(">")
    if name not in _VOID:
        parts.append(joined(*children))
        parts.append(f"</{name}>")
    return Markup("".join(parts))


def joined(*children: Child) -> Markup:
    """Several pieces after one another."""
    return Markup("".join(map(_shown, children)))


def _shortened(text: str) -> str:
    return f"{text[: _LONGEST // 2]}… ({len(text) - _LONGEST} more characters) …{text[-_LONGEST // 2 :]}"


def _encodable(text: str) -> str:
    """An attribute keeps its exact value, since addresses are made of it; lone surrogates cannot be sent at all."""
    return text.encode("utf-8", "replace").decode()


def _shown(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return escape(readable(child if len(child) <= _LONGEST else _shortened(child)))
    if isinstance(child, int | float):
        return escape(str(child))
    return "".join(map(_shown, child))
