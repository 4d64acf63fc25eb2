"""The page's HTTP application: static files, server-sent events and a token. It changes nothing."""

import asyncio
import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from headrace.dashboard.sites import Page, Site
from headrace.errors import ConfigError

__all__ = ["make_application"]

_ASSETS = {
    "dashboard.css": "text/css",
    "runs.js": "text/javascript",
    "server.js": "text/javascript",
    "charts.js": "text/javascript",
    "connection.js": "text/javascript",
    "diagram.js": "text/javascript",
    "format.js": "text/javascript",
    "login.js": "text/javascript",
    "icon.svg": "image/svg+xml",
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
_OPEN = ("/login", "/assets/dashboard.css", "/assets/icon.svg", "/assets/login.js")  # the form and its files
_LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?")
_MOST_FORM_BYTES = 4096
_ALIVE_SECONDS = 15.0

Next = Callable[[Request], Awaitable[Response]]


def make_application(
    site: Site, token: bytes | None, *, period_seconds: float = 1.0, ending: Callable[[], bool] = lambda: False
) -> Starlette:
    """The application for a site.

    With a token, every answer except the form that asks for it needs the token, as `Authorization: Bearer` or the
    cookie that the form sets. Without one, only requests that name this machine as their host are answered, so that no
    other site can read the page by giving its own name this machine's address. Streams end soon after `ending()`.
    """
    guard = _Guard(token)

    async def document(_request: Request) -> Response:
        return _asset(site.document, "text/html")

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        return _asset(name, _ASSETS[name]) if name in _ASSETS else _refusal(404)

    async def events(request: Request) -> Response:
        try:
            page = site.open_page(request.query_params.getlist("run"))
        except ConfigError as error:
            return PlainTextResponse(str(error), 400)
        stream = _events(page, period_seconds, ending)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def login(request: Request) -> Response:
        return await guard.log_in(request)

    routes = [
        Route("/", document),
        Route("/assets/{name}", asset),
        Route("/api/events", events),
        Route("/login", login, methods=["POST"]),
        *site.routes(),
    ]
    return Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard.check)])


class _Guard:
    """Decides who may read, and adds the headers that every answer has."""

    def __init__(self, token: bytes | None) -> None:
        self._token = token
        # A page that is open reconnects to a restarted server: the cookie depends on nothing but the token.
        self._cookie = hmac.digest(token, b"headrace dashboard", hashlib.sha256).hex() if token else ""
        # Cookies are those of a host, regardless of the port: another dashboard has another name.
        self._cookie_name = "headrace-" + hashlib.sha256(self._cookie.encode()).hexdigest()[:8]

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
        if self._token is None or not self._is_token(given.encode(errors="replace")):
            return _asset("login.html", "text/html", 403)
        response = RedirectResponse("/", 303)
        response.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="strict")
        return response

    def _refuse(self, request: Request) -> Response | None:
        if self._token is None:
            named = _LOOPBACK.fullmatch(request.headers.get("host", ""))
            return None if named else _refusal(403)
        path = request.scope["path"]  # which is routed; request.url also depends on the Host header
        if path in _OPEN:
            return None
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return None if self._is_token(given.strip(" \t").encode("latin-1")) else _refusal(403)  # as it was decoded
        cookie = request.cookies.get(self._cookie_name, "")
        if hmac.compare_digest(cookie.encode(), self._cookie.encode()):
            return None
        refused = 403 if cookie else 401
        return _asset("login.html", "text/html", refused) if path == "/" else _refusal(refused)

    def _is_token(self, given: bytes) -> bool:
        return hmac.compare_digest(given, self._token or b"")


async def _events(page: Page, period_seconds: float, ending: Callable[[], bool]) -> AsyncIterator[str]:
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
