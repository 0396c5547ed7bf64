"""The web application: which address is which page, who may see it, and what every answer carries.

Only this file, ``response_headers``, ``http_limits`` and ``serving`` know the web framework. Every page but the login
needs a session; every POST needs the session's form secret; a page that changes something exists only where changes are
allowed. An error is a page with its sentence.
"""

from __future__ import annotations

import logging
import math
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from seamark.counts import counted
from seamark.dashboard import access as access_rules
from seamark.dashboard.access import LOGIN_COOKIE, SESSION_COOKIE, SESSION_S, Access, Session
from seamark.dashboard.changes import Changes, NotConfirmed
from seamark.dashboard.changes_pages import applied_page, changes_page, plan_page, reset_page, target_text
from seamark.dashboard.clusters_page import clusters_page, error_page, login_page
from seamark.dashboard.group_page import group_page
from seamark.dashboard.groups_page import groups_page
from seamark.dashboard.http_limits import HEALTH
from seamark.dashboard.layout import Context
from seamark.dashboard.listing import Query
from seamark.dashboard.live import Streams
from seamark.dashboard.response_headers import ResponseHeaders
from seamark.dashboard.sight import NotFound, Sight
from seamark.dashboard.topics_page import ORDERS as TOPIC_ORDERS
from seamark.dashboard.topics_page import Topics, topic_page, topics_page
from seamark.dashboard.wording import Wording
from seamark.errors import SeamarkError, UsageError
from seamark.http_hosts import AllowedHosts
from seamark.log_limits import LogLimits
from seamark.plans import PlanRefused
from seamark.readable_log import readable_logger

_STATIC = Path(__file__).with_name("static")
_MOST_FORM_BYTES = 64 << 10
_THEMES = ("light", "dark")

Form = Mapping[str, Sequence[str]]
PageOf = Callable[[Request, Context], str]
ActionOf = Callable[[Context, Form], str | Response]


class Dashboard:
    """The application of several clusters; ``plans`` is where applied plans are kept, None forbids changes.

    Behind a proxy a client's address is the last one in ``X-Forwarded-For``, which the proxy has written.
    """

    def __init__(
        self,
        sights: Sequence[Sight],
        access: Access,
        wording: Wording,
        *,
        hosts: AllowedHosts,
        plans: Path | None = None,
        is_secure: bool = False,
        is_behind_proxy: bool = False,
    ) -> None:
        self.streams = Streams()
        self._sights = {sight.name: sight for sight in sights}
        self._access = access
        self._wording = wording
        self._hosts = hosts
        self._is_secure = is_secure
        self._is_behind_proxy = is_behind_proxy
        self._log_limits = LogLimits(readable_logger("seamark.dashboard"))
        self._topics = {name: Topics(sight.admin) for name, sight in self._sights.items()}
        self._changes: dict[str, Changes] = {}
        if plans is not None:
            self._changes = {
                name: Changes(sight.admin, self._topics[name], plans, lambda: int(time.time() * 1000))
                for name, sight in self._sights.items()
            }
        inner = Starlette(routes=self._routes(), exception_handlers={Exception: _broken})
        self._inner = inner
        # Around everything, so that answers to errors carry the headers too.
        self.app = ResponseHeaders(self._checked, is_secure=is_secure)

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, for requests that are meant for this site."""
        app: ASGIApp = self._inner
        if scope["type"] == "http" and scope["path"] != HEALTH:
            request = Request(scope)
            host = request.headers.get("host", "")
            if not self._hosts.allow(host):
                self._tell(request, "asked for a host name that is not allowed", detail=f": {host[:100]!r}")
                sentence = f"host name {host[:100]!r} is not allowed: start the dashboard with --allowed-host"
                app = _refusal(sentence, 421, _theme(request))
            elif not scope["path"].startswith("/"):
                app = _refusal("not a page of this site", 400, _theme(request))
        await app(scope, receive, send)

    def _tell(self, request: Request, sentence: str, *, detail: str = "") -> None:
        address = self._address_of(request)
        self._log_limits.write(logging.WARNING, address, sentence, about=f"the client at {address} ", detail=detail)

    def _address_of(self, request: Request) -> str:
        if self._is_behind_proxy:
            told = ",".join(request.headers.getlist("x-forwarded-for")).rpartition(",")[2].strip()
            if told:
                return told[:100]
        return request.client.host if request.client else "unknown"

    def _routes(self) -> list[Route | Mount]:
        routes: list[Route | Mount] = [
            Route("/", self._home, methods=["GET"]),
            Route(HEALTH, self._healthz, methods=["GET"]),
            Route("/login", self._login, methods=["GET"]),
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
            Route("/c/{cluster}/groups", self._page(_groups), methods=["GET"]),
            Route("/c/{cluster}/group", self._page(_group), methods=["GET"]),
            Route("/c/{cluster}/topics", self._page(self._topic_list), methods=["GET"]),
            Route("/c/{cluster}/topic", self._page(self._topic), methods=["GET"]),
            Route("/c/{cluster}/live", self._live, methods=["GET"]),
            Route("/c/{cluster}/changes", self._page(self._change_list), methods=["GET"]),
            Route("/c/{cluster}/reset", self._page(self._reset), methods=["GET"]),
            Route("/c/{cluster}/acknowledge", self._action(_acknowledge), methods=["POST"]),
            Route("/c/{cluster}/plan", self._action(self._plan), methods=["POST"]),
            Route("/c/{cluster}/undo", self._action(self._undo), methods=["POST"]),
            Route("/c/{cluster}/apply", self._action(self._apply), methods=["POST"]),
            Mount("/static", StaticFiles(directory=_STATIC)),
            Route("/{rest:path}", self._nowhere),
        ]
        return routes

    # Pages

    def _topic_list(self, request: Request, context: Context) -> str:
        query = Query.of(request.query_params, TOPIC_ORDERS)
        return topics_page(context, self._topics[context.here.name], query)

    def _topic(self, request: Request, context: Context) -> str:
        query = Query.of(request.query_params, TOPIC_ORDERS)
        return topic_page(context, self._topics[context.here.name], request.query_params.get("id", ""), query)

    def _change_list(self, _request: Request, context: Context) -> str:
        return changes_page(context, self._changes_of(context).done(context.here.cluster_id))

    def _reset(self, request: Request, context: Context) -> str:
        self._changes_of(context)
        return reset_page(context, request.query_params.get("id", ""))

    # Actions

    def _plan(self, context: Context, form: Form) -> str | Response:
        changes = self._changes_of(context)
        try:
            return self._planned(context, changes, form)
        except (UsageError, PlanRefused, NotFound) as error:
            # The form again, with what was given to it.
            page = reset_page(context, _one(form, "id"), form, str(error))
            return HTMLResponse(page, _status_of(error))

    def _planned(self, context: Context, changes: Changes, form: Form) -> str:
        text = target_text({name: values[0] for name, values in form.items()})
        group = _one(form, "id")
        topics = [*filter(None, form.get("topic", ())), *_one(form, "others").split()]
        if not topics:
            raise UsageError("choose at least one topic")
        clamp = bool(_one(form, "clamp"))
        why = f"set to {text}" + (", or to the nearest end of the log" if clamp else "")
        return plan_page(context, changes.propose(group, topics, self._wording.target(text), why, clamp=clamp))

    def _undo(self, context: Context, form: Form) -> str:
        return plan_page(context, self._changes_of(context).propose_undo(_one(form, "plan")))

    def _apply(self, context: Context, form: Form) -> str | Response:
        digest, confirmed = _one(form, "digest"), _one(form, "confirmed")
        changes = self._changes_of(context)
        try:
            applied = changes.apply(digest, confirmed)
        except NotConfirmed as error:
            return HTMLResponse(plan_page(context, error.proposal, str(error)), _status_of(error))
        name = applied.undo_path.name.removesuffix(".undo.json") if applied.undo_path else f"seamark-plan-{digest[:12]}"
        return applied_page(context, applied, name, confirmed)

    def _changes_of(self, context: Context) -> Changes:
        if not self._changes:
            raise _Refused("changes are disabled: start the dashboard with --allow-changes")
        return self._changes[context.here.name]

    # What surrounds them

    async def _home(self, request: Request) -> Response:
        session = self._session(request)
        if session is None:
            return RedirectResponse("/login", 303)
        if len(self._sights) == 1:
            (name,) = self._sights
            return _redirect(f"/c/{urllib.parse.quote(name, safe='')}/groups")
        return await self._answered(request, session, clusters_page)

    def _page(self, page_of: PageOf) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                return RedirectResponse("/login", 303)
            return await self._answered(request, session, lambda context: page_of(request, context))

        return answer

    def _action(self, action_of: ActionOf) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                return RedirectResponse("/login", 303)
            form = await _form(request)
            if form is None:
                return _refusal("the form is too large", 413, _theme(request))
            if not access_rules.is_same_site(request.headers) or not access_rules.is_form_of(
                session, _one(form, "secret")
            ):
                return _refusal("the form is not from this page, or has expired: reload the page", 403, _theme(request))
            return await self._answered(request, session, lambda context: action_of(context, form))

        return answer

    async def _answered(
        self, request: Request, session: Session, made: Callable[[Context], str | Response]
    ) -> Response:
        """Pages are made on a thread: some of them ask the cluster."""
        name = request.path_params.get("cluster")
        sight = self._sights.get(name) if name is not None else None
        context = Context(
            self._sights, self._wording, bool(self._changes), session.form_secret, _theme(request), sight
        )  # fmt: skip
        if name is not None and sight is None:
            known = ", ".join(self._sights)
            return HTMLResponse(error_page(context, f"no cluster {name!r}; known clusters: {known}"), 404)
        try:
            answer = await run_in_threadpool(made, context)
            return answer if isinstance(answer, Response) else HTMLResponse(answer)
        except SeamarkError as error:
            return HTMLResponse(error_page(context, str(error)), _status_of(error))

    async def _live(self, request: Request) -> Response:
        session = self._session(request)
        sight = self._sights.get(request.path_params["cluster"])
        if session is None or sight is None:
            return PlainTextResponse(
                "log in first" if session is None else "no such cluster", 403 if session is None else 404
            )
        if self.streams.is_full:
            return PlainTextResponse("too many open pages", 503, headers={"Retry-After": "30"})
        name = request.cookies.get(SESSION_COOKIE)
        lines = self.streams.of(sight, lambda: self._access.session(name) is not None)
        return StreamingResponse(lines, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _healthz(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _nowhere(self, request: Request) -> Response:
        session = self._session(request)
        if session is None:
            return RedirectResponse("/login", 303)
        context = Context(self._sights, self._wording, bool(self._changes), session.form_secret, _theme(request))
        return HTMLResponse(error_page(context, "no such page"), 404)

    # Logging in and out

    def _session(self, request: Request) -> Session | None:
        return self._access.session(request.cookies.get(SESSION_COOKIE))

    async def _login(self, request: Request) -> Response:
        if self._session(request) is not None:
            return _redirect("/")
        return self._login_answer(request, "", 200)

    def _login_answer(self, request: Request, problem: str, status: int) -> Response:
        value, secret = self._access.login_form()
        response = HTMLResponse(login_page(secret, problem, _theme(request)), status)
        self._set_cookie(response, LOGIN_COOKIE, value, 3600)
        return response

    async def _log_in(self, request: Request) -> Response:
        form = await _form(request)
        cookie = request.cookies.get(LOGIN_COOKIE)
        if form is None or not access_rules.is_same_site(request.headers):
            return _refusal("the form is not from this page", 403, _theme(request))
        if not self._access.is_login_form(cookie, _one(form, "secret")):
            return self._login_answer(request, "The page has expired: try again.", 403)
        address = self._address_of(request)
        wait_s = math.ceil(self._access.wait_s(address))
        if wait_s:
            sentence = f"Too many wrong tokens from your address: wait {counted(wait_s, 'second')}."
            answer = self._login_answer(request, sentence, 429)
            answer.headers["Retry-After"] = str(wait_s)
            return answer
        name = self._access.log_in(_one(form, "token").strip(), address)
        if name is None:
            self._tell(request, "sent a wrong token")
            return self._login_answer(request, "Wrong token.", 403)
        response = _redirect("/")
        self._set_cookie(response, SESSION_COOKIE, name, int(SESSION_S))
        response.delete_cookie(LOGIN_COOKIE)
        return response

    async def _log_out(self, request: Request) -> Response:
        session = self._session(request)
        form = await _form(request)
        if session is not None:
            if form is None or not access_rules.is_form_of(session, _one(form, "secret")):
                return _refusal("the form is not from this page", 403, _theme(request))
            self._access.log_out(request.cookies.get(SESSION_COOKIE))
        response = RedirectResponse("/login", 303)
        response.delete_cookie(SESSION_COOKIE)
        return response

    def _set_cookie(self, response: Response, name: str, value: str, seconds: int) -> None:
        response.set_cookie(name, value, seconds, secure=self._is_secure, httponly=True, samesite="strict")


def _redirect(path: str) -> Response:
    """Go to a page without what follows # in the address that was asked for: the printed link has the token there.

    A browser keeps that part over a redirect unless the new address has one of its own, which may be empty.
    """
    return RedirectResponse(f"{path}#", 303)


class _Refused(SeamarkError):
    """Not allowed here."""


def _groups(request: Request, context: Context) -> str:
    return groups_page(context, Query.of(request.query_params))


def _group(request: Request, context: Context) -> str:
    asked = request.query_params
    return group_page(
        context, asked.get("id", ""), Query.of(asked), asked.get("range", "1h"), asked.get("show", "records")
    )


def _acknowledge(context: Context, form: Form) -> Response:
    """Allowed to all who have logged in: nothing of the cluster changes."""
    name = _one(form, "id")
    context.here.acknowledge_rewind(name)
    return RedirectResponse(context.url("group", id=name), 303)


def _status_of(error: SeamarkError) -> int:
    for kind, status in ((NotFound, 404), (_Refused, 403), (UsageError, 400), (PlanRefused, 409)):
        if isinstance(error, kind):
            return status
    return 502


def _theme(request: Request) -> str:
    theme = request.cookies.get("seamark-theme", "")
    return theme if theme in _THEMES else ""


def _refusal(sentence: str, status: int, theme: str) -> Response:
    return HTMLResponse(error_page(None, sentence, theme), status)


async def _broken(request: Request, _error: Exception) -> Response:
    return _refusal("internal error; see the dashboard's log", 500, _theme(request))


async def _form(request: Request) -> Form | None:
    """The fields of a form; None if it is larger than any of ours."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_FORM_BYTES:
            return None
    try:
        return urllib.parse.parse_qs(body.decode(), keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        return {}


def _one(form: Form, name: str) -> str:
    return form.get(name, [""])[0]
