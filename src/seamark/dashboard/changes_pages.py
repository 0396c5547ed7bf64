"""Pages of a reset: the form, the plan with what it would do, what came of it, and the list with a way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seamark.client import Offset
from seamark.counts import counted
from seamark.dashboard.changes import Done, Proposal
from seamark.dashboard.layout import Context, hidden, page, table
from seamark.dashboard.markup import Child, Markup, tag
from seamark.dashboard.sight import NotFound
from seamark.dashboard.wording import NOTHING, change_text, count_text, sentence_text, time_text
from seamark.errors import UsageError
from seamark.plans import Applied, Preview, Standing, digest_of
from seamark.plans.errors import some

_WAYS = {
    "earliest": ("the start of the log", ""),
    "latest": ("the end of the log", ""),
    "offset": ("an offset", "42"),
    "time": ("a time", "2026-11-15T08:00Z"),
    "ago": ("a duration ago", "1h30m"),
    "shift": ("a number of records forward or back", "-100"),
    "group": ("the offsets of another group", "its name"),
}
_MOST_TOPICS = 100
_MOST_ROWS = 500
_LONGEST = 2000


def reset_page(
    context: Context, group: str, given: Mapping[str, Sequence[str]] | None = None, problem: str = ""
) -> str:
    """The form; after a ``problem`` with what was ``given`` to it."""
    board = context.here.board
    if board is None:
        raise NotFound("this cluster has not been polled yet: try again in a moment")
    context.here.group_row(board, group)
    view = board.views[group]
    topics = sorted({partition.partition.topic for partition in view.partitions})
    chosen = topics if given is None else given.get("topic", ())
    way, value, others, clamp = (_given(given, name) for name in ("way", "value", "others", "clamp"))
    warning = None
    if view.description.is_active:
        members = counted(len(view.description.members), "member")
        warning = tag(
            "p",
            f"The group is {view.description.state} with {members}: a reset is refused until they are stopped.",
            class_="problem",
            role="alert",
        )
    boxes = [
        tag("label", tag("input", type="checkbox", name="topic", value=topic, checked=topic in chosen), " ", topic)
        for topic in topics[:_MOST_TOPICS]
    ]
    more = len(topics) - len(boxes)
    examples = "; ".join(f"{way}: {example}" for way, (_, example) in _WAYS.items() if example)
    return page(
        context,
        f"Reset {group}",
        tag("p", tag("a", group or "(no name)", href=context.url("group", id=group)), " › reset", class_="quiet"),
        tag("h1", "Reset offsets"),
        _problem(problem),
        warning,
        tag(
            "form",
            hidden(context, id=group),
            tag(
                "fieldset",
                tag("legend", "Topics of the group"),
                boxes or tag("p", "The group has no committed offsets.", class_="quiet"),
                tag("p", f"and {more} more: enter them below", class_="quiet") if more > 0 else None,
            ),
            tag(
                "label",
                "Others ",
                tag("input", name="others", value=others, placeholder="topic or topic:0,1", maxlength=_LONGEST),
            ),
            tag(
                "div",
                tag(
                    "label",
                    "Set to ",
                    tag(
                        "select",
                        [tag("option", title, value=word, selected=word == way) for word, (title, _) in _WAYS.items()],
                        name="way",
                        id="way",
                    ),
                ),
                tag(
                    "label",
                    "Value ",
                    tag(
                        "input", name="value", id="value", value=value, maxlength=_LONGEST, aria_describedby="examples"
                    ),
                ),
                class_="line",
            ),
            tag("p", f"Examples of values: {examples}. Times without a zone are UTC.", class_="quiet", id="examples"),
            tag(
                "label",
                tag("input", type="checkbox", name="clamp", value="yes", checked=bool(clamp)),
                " If an offset is outside the log, use the nearest end of the log. Otherwise the reset is refused.",
            ),
            tag("button", "Show what would change", class_="primary"),
            method="post",
            action=context.url("plan"),
            class_="card",
        ),
        section="changes",
    )


def _problem(text: str) -> Markup | None:
    """Why what was asked for was not done."""
    return tag("p", sentence_text(text), class_="problem", role="alert") if text else None


def _given(form: Mapping[str, Sequence[str]] | None, name: str) -> str:
    return next(iter((form or {}).get(name, ())), "")


def target_text(form: Mapping[str, str]) -> str:
    """What the form asks for, as ``--to`` would say it; UsageError if a value is missing."""
    way, value = form.get("way", ""), form.get("value", "").strip()
    if way not in _WAYS:
        raise UsageError(f"{way!r} is not a valid target")
    if not _WAYS[way][1]:
        return way
    if not value:
        raise UsageError(f"a value is required, for example {_WAYS[way][1]}")
    return f"{way}:{value}"


def plan_page(context: Context, proposal: Proposal, problem: str = "") -> str:
    """What would change; ``problem`` is why it was not made."""
    plan = proposal.plan
    groups = ", ".join(group.group for group in plan.groups)
    remarks = [tag("li", remark) for remark in proposal.remarks[:_MOST_ROWS]]
    content: list[Child] = [
        tag("h1", "Undo: what would change" if plan.undoes else "What would change"),
        _problem(problem),
        tag("p", f"Nothing was changed yet; the plan: {plan.why}", class_="quiet"),
        tag("ul", remarks, class_="remarks") if remarks else None,
    ]
    if not len(plan):
        content.append(tag("p", "Nothing to change: the offsets already have these values.", class_="card"))
        return page(context, "Nothing to change", *content, section="changes")
    content += [
        tag("p", f"This would be refused: {problem}", class_="problem", role="alert") for problem in _problems(proposal)
    ]
    content += _effects(proposal.preview)
    columns = [
        ("Group", "name"),
        ("Partition", ""),
        ("Before", "number"),
        ("After", "number"),
        ("Change", "number"),
        ("Repeated", "number"),
        ("Skipped", "number"),
        ("Problem", "remark"),
    ]
    rows: list[list[Child]] = [
        [
            row.group,
            str(row.partition),
            _offset(row.before),
            _offset(row.after),
            NOTHING if row.delta is None else change_text(row.delta),
            count_text(row.repeated),
            count_text(row.skipped),
            row.problem.removeprefix(f"{row.partition}: "),
        ]
        for row in proposal.preview.rows[:_MOST_ROWS]
    ]
    content.append(table(columns, rows, empty="", caption="What would change"))
    more = len(proposal.preview.rows) - _MOST_ROWS
    content.append(tag("p", f"and {more} more", class_="quiet") if more > 0 else None)
    content.append(
        tag(
            "form",
            hidden(context, digest=proposal.digest),
            _confirmation(proposal.preview),
            tag(
                "button",
                f"Make {counted(len(plan), 'change')} to {groups}" if len(groups) < 60 else "Make the changes",
                class_="primary danger",
                disabled=not proposal.preview.is_ready,
            ),
            tag("a", "Leave it", href=context.url("changes"), class_="button"),
            method="post",
            action=context.url("apply"),
            class_="line",
        )
    )
    return page(context, "What would change", *content, section="changes")


def _problems(proposal: Proposal) -> list[str]:
    rows = proposal.preview.rows
    stale = [f"{row.partition} of group {row.group}: {row.problem}" for row in rows if row.standing is Standing.STALE]
    outside = [row.problem for row in rows if row.problem and row.standing is not Standing.STALE]
    return [
        *proposal.preview.problems,
        *([some(stale)] if stale else []),
        *([f"{some(outside)}; {proposal.hint}"] if outside else []),
    ]


def _effects(shown: Preview) -> list[Markup]:
    """What the change means for the group's records, before the button that makes it."""
    effects = []
    if shown.skipped:
        never = "the group would never read " + ("it." if shown.skipped == 1 else "them.")
        skipped = tag("strong", f"{counted(shown.skipped, 'record')} would be skipped")
        effects.append(tag("p", skipped, ": ", never, class_="problem", role="alert"))
    if shown.repeated:
        again = "the group would read " + ("it" if shown.repeated == 1 else "them") + " again."
        repeated = tag("strong", f"{counted(shown.repeated, 'record')} would be repeated")
        effects.append(tag("p", repeated, ": ", again, class_="effect"))
    effects += [tag("p", f"{remark}.", class_="effect") for remark in shown.remarks]
    return effects


def _confirmation(shown: Preview) -> Markup | None:
    """Whoever skips records says how many, so that a mistyped offset is noticed."""
    if not shown.skipped or not shown.is_ready:
        return None
    return tag(
        "label",
        f"To skip {counted(shown.skipped, 'record')}, type the number ",
        tag("input", name="confirmed", required=True, autocomplete="off", inputmode="numeric", maxlength=40),
    )


def applied_page(context: Context, applied: Applied, name: str, confirmed: str) -> str:
    """What came of a plan; ``name`` is what it is taken back by, ``confirmed`` what the user typed to have it made."""
    made = sum(outcome.is_made for outcome in applied.outcomes)
    head = "Done and verified" if applied.is_complete else f"{made} of {counted(len(applied.outcomes), 'change')} made"
    columns = [
        ("Group", "name"),
        ("Partition", ""),
        ("Before", "number"),
        ("After", "number"),
        ("Result", ""),
        ("Reason", "remark"),
    ]
    # What went wrong is seen first.
    outcomes = sorted(applied.outcomes, key=lambda outcome: outcome.is_made)
    rows: list[list[Child]] = [
        [
            outcome.group,
            str(outcome.change.partition),
            _offset(outcome.change.before),
            _offset(outcome.change.after),
            outcome.result,
            outcome.reason,
        ]
        for outcome in outcomes[:_MOST_ROWS]
    ]
    groups = [group.group for group in applied.plan.groups]
    links = [tag("a", f"Group {group}", href=context.url("group", id=group), class_="button") for group in groups[:5]]
    return page(
        context,
        head,
        tag("h1", head),
        _again(context, applied, confirmed) if not applied.is_complete else None,
        table(columns, rows, empty="", caption="Result of each change"),
        tag("div", _undo_form(context, name, "Undo …"), links, class_="line"),
        section="changes",
    )


def changes_page(context: Context, done: Sequence[Done]) -> str:
    undone = {change.record.plan.undoes for change in done}
    columns = [("Time", ""), ("Groups", "name"), ("Changes", "number"), ("Why", "remark"), ("", "")]
    rows: list[list[Child]] = []
    for change in done:
        plan = change.record.plan
        names = [changed.group for changed in plan.groups]
        action: Markup | str = _undo_form(context, change.name, "Undo …")
        if digest_of(plan) in undone:
            action = "undone"
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        rows.append([time_text(change.record.started_ms), shown, count_text(len(plan)), plan.why, action])
    empty = "No changes yet. To reset a group, open its page."
    return page(
        context,
        "Changes",
        tag("h1", "Changes"),
        table(columns, rows, empty=empty, caption="Applied changes, latest first"),
        section="changes",
    )


def _again(context: Context, applied: Applied, confirmed: str) -> Markup:
    return tag(
        "form",
        hidden(context, digest=digest_of(applied.plan), confirmed=confirmed),
        tag("p", "Once the cause is fixed, the remaining changes can be made.", class_="problem", role="alert"),
        tag("button", "Make the remaining changes", class_="primary"),
        method="post",
        action=context.url("apply"),
    )


def _undo_form(context: Context, name: str, title: str) -> Markup:
    return tag(
        "form",
        hidden(context, plan=name),
        tag("button", title),
        method="post",
        action=context.url("undo"),
    )


def _offset(offset: Offset | None) -> str:
    return NOTHING if offset is None else count_text(offset.offset)
