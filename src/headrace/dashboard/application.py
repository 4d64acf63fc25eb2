"""The page's HTTP application: static files, server-sent events and a token. It changes nothing."""

import asyncio
import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from mimetypes import guess_type
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from headrace.dashboard.records import Record
from headrace.dashboard.runs import RunsFolder

__all__ = ["MOST_RUNS", "make_application"]

MOST_RUNS = 12
"""Runs that one page can show at a time."""
_ASSETS = {
    "dashboard.css": "text/css",
    "dashboard.js": "text/javascript",
    "charts.js": "text/javascript",
    "diagram.js": "text/javascript",
    "format.js": "text/javascript",
    "uPlot.iife.min.js": "text/javascript",
    "uPlot.min.css": "text/css",
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_COOKIE = "headrace"
_LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?")
_MOST_FORM_BYTES = 4096
_ALIVE_SECONDS = 15.0

Next = Callable[[Request], Awaitable[Response]]


def make_application(
    folder: RunsFolder, token: bytes | None, *, period_seconds: float = 1.0, ending: Callable[[], bool] = lambda: False
) -> Starlette:
    """The application for a folder of runs.

    With a token, every answer except the form that asks for it needs the token, as `Authorization: Bearer` or the
    cookie that the form sets. Without one, only requests that name this machine as their host are answered, so that no
    other site can read the page by giving its own name this machine's address. Streams end soon after `ending()`.
    """
    guard = _Guard(token)

    async def page(_request: Request) -> Response:
        return _asset("index.html", "text/html")

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        return _asset(name, _ASSETS[name]) if name in _ASSETS else _refusal(404)

    async def runs(_request: Request) -> Response:
        found = {"root": str(folder.root), "runs": await run_in_threadpool(folder.cards)}
        # JSONResponse refuses text that UTF-8 can't encode; this escapes it.
        return Response(json.dumps(found), media_type="application/json")

    async def video(request: Request) -> Response:
        file = await run_in_threadpool(folder.video, request.query_params.get("run", ""))
        if file is None:
            return _refusal(404)
        opened = f"/proc/self/fd/{file.fileno()}"  # its path may have another file, or a link, by now
        return FileResponse(opened, media_type=guess_type(file.name)[0], background=BackgroundTask(file.close))

    async def events(request: Request) -> Response:
        names = list(dict.fromkeys(request.query_params.getlist("run")))
        if len(names) > MOST_RUNS:
            return PlainTextResponse(f"run is given {len(names)} times; it must be at most {MOST_RUNS}", 400)
        stream = _events(_Page(folder, names), period_seconds, ending)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def login(request: Request) -> Response:
        return await guard.log_in(request)

    routes = [
        Route("/", page),
        Route("/assets/{name}", asset),
        Route("/api/runs", runs),
        Route("/api/video", video),
        Route("/api/events", events),
        Route("/login", login, methods=["POST"]),
    ]
    return Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard.check)])


class _Guard:
    """Decides who may read, and adds the headers that every answer has."""

    def __init__(self, token: bytes | None) -> None:
        self._token = token
        # A page that is open reconnects to a restarted server: the cookie depends on nothing but the token.
        self._cookie = hmac.digest(token, b"headrace dashboard", hashlib.sha256).hex() if token else ""

    async def check(self, request: Request, proceed: Next) -> Response:
        """Answers a request if it is allowed."""
        response = self._refuse(request) or await proceed(request)
        response.headers.update(_HEADERS)
        return response

    async def log_in(self, request: Request) -> Response:
        """Sets the cookie for the token of the form."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_FORM_BYTES:
                return _refusal(413)
        given = parse_qs(body.decode(errors="replace")).get("token", [""])[0].strip()
        if self._token is None or not self._is_token(given):
            return _asset("login.html", "text/html", 403)
        response = RedirectResponse("/", 303)
        response.set_cookie(_COOKIE, self._cookie, httponly=True, samesite="strict")
        return response

    def _refuse(self, request: Request) -> Response | None:
        if self._token is None:
            named = _LOOPBACK.fullmatch(request.headers.get("host", ""))
            return None if named else _refusal(403)
        if request.url.path == "/login":
            return None
        if request.url.path == "/assets/dashboard.css":  # the form's
            return None
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return None if self._is_token(given.strip()) else _refusal(403)
        cookie = request.cookies.get(_COOKIE, "")
        if hmac.compare_digest(cookie.encode(), self._cookie.encode()):
            return None
        refused = 403 if cookie else 401
        return _asset("login.html", "text/html", refused) if request.url.path == "/" else _refusal(refused)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="replace"), self._token or b"")


class _Page:
    """What one open page was sent. One thread at a time."""

    def __init__(self, folder: RunsFolder, names: list[str]) -> None:
        self._folder = folder
        self._listed: dict[str, Record] | None = None
        self._positions: dict[str, tuple[int, int] | None] = dict.fromkeys(names)
        self._states: dict[str, Record | None] = {}

    def changes(self) -> list[tuple[str, Record]]:
        """The messages that are due.

        "runs": lines of the list that changed, and names that are gone; the first one has the whole list. "run": rows
        and parts of the state of one of the named runs that changed. "gone": one of them is not there.
        """
        messages = self._list_changes()
        for name, position in self._positions.items():
            found = self._folder.update(name, position)
            if found is None:
                if self._states.get(name, {}) is not None:
                    messages.append(("gone", {"name": name}))
                self._positions[name], self._states[name] = None, None
                continue
            self._positions[name], message = found
            state, before = message["state"], self._states.get(name) or {}
            if message["reset"] or self._positions[name] != position or before != state:
                self._states[name] = state
                parts = {key: part for key, part in state.items() if message["reset"] or before.get(key) != part}
                messages.append(("run", message | {"state": parts}))
        return messages

    def _list_changes(self) -> list[tuple[str, Record]]:
        cards = {card["name"]: card for card in self._folder.cards()}
        before, self._listed = self._listed, cards
        known = before or {}
        changed = [card for name, card in cards.items() if known.get(name) != card]
        gone = [name for name in known if name not in cards]
        if before is not None and not changed and not gone:
            return []
        root = str(self._folder.root)
        return [("runs", {"root": root, "reset": before is None, "runs": changed, "gone": gone})]


async def _events(page: _Page, period_seconds: float, ending: Callable[[], bool]) -> AsyncIterator[str]:
    """The stream of one page, until the server ends."""
    silent = 0.0
    while not ending():
        messages = await run_in_threadpool(page.changes)
        for kind, message in messages:
            yield f"event: {kind}\ndata: {json.dumps(message)}\n\n"
        silent = 0.0 if messages else silent + period_seconds
        if silent >= _ALIVE_SECONDS:  # so that a connection that broke is noticed
            silent = 0.0
            yield ": alive\n\n"
        await asyncio.sleep(period_seconds)


def _asset(name: str, kind: str, status: int = 200) -> Response:
    content = (files("headrace.dashboard") / "assets" / name).read_bytes()
    return Response(content, status, media_type=kind)


def _refusal(status: int) -> Response:
    texts = {401: "a token is required", 403: "not allowed", 404: "there is no such thing", 413: "too long"}
    return PlainTextResponse(texts[status], status)
