"""What a dashboard can be about: a folder of runs, or a server."""

import json
from collections.abc import Sequence
from mimetypes import guess_type
from typing import Protocol

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from headrace.dashboard.records import Record
from headrace.dashboard.runs import RunsFolder
from headrace.dashboard.server_monitor import ServerMonitor
from headrace.errors import require

__all__ = ["MOST_RUNS", "Message", "Page", "RunsSite", "ServerSite", "Site"]

MOST_RUNS = 12
"""Runs that one page can show at a time."""

Message = tuple[str, Record]
"""The name and the data of a server-sent event."""


class Page(Protocol):
    """What one open page was sent. One thread at a time."""

    def changes(self) -> list[Message]:
        """The messages that are due."""


class Site(Protocol):
    """What a dashboard is about. Thread-safe."""

    document: str
    """Name of the page's HTML file among the assets."""

    def open_page(self, names: Sequence[str]) -> Page:
        """A page that was just opened and wants to see these runs; raises ConfigError for more than it can show."""

    def routes(self) -> list[Route]:
        """Further addresses."""


class RunsSite:
    """The runs of a folder."""

    document = "runs.html"

    def __init__(self, folder: RunsFolder) -> None:
        self._folder = folder

    def open_page(self, names: Sequence[str]) -> Page:
        """A page with some of the runs."""
        names = list(dict.fromkeys(names))
        require("run", f"given {len(names)} times", len(names) <= MOST_RUNS, f"at most {MOST_RUNS}")
        return _RunsPage(self._folder, names)

    def routes(self) -> list[Route]:
        """The list of runs, and their videos."""
        return [Route("/api/runs", self._runs), Route("/api/video", self._video)]

    async def _runs(self, _request: Request) -> Response:
        found = {"root": str(self._folder.root), "runs": await run_in_threadpool(self._folder.cards)}
        # JSONResponse refuses text that UTF-8 can't encode; this escapes it.
        return Response(json.dumps(found), media_type="application/json")

    async def _video(self, request: Request) -> Response:
        file = await run_in_threadpool(self._folder.video, request.query_params.get("run", ""))
        if file is None:
            return PlainTextResponse("this run has no video", 404)
        opened = f"/proc/self/fd/{file.fileno()}"  # its path may have another file, or a link, by now
        return FileResponse(opened, media_type=guess_type(file.name)[0], background=BackgroundTask(file.close))


class _RunsPage:
    """A page about runs.

    "runs": lines of the list that changed, and names that are gone; the first one has the whole list. "run": rows and
    parts of the state of one of the named runs that changed. "gone": one of them is not there.
    """

    def __init__(self, folder: RunsFolder, names: Sequence[str]) -> None:
        self._folder = folder
        self._listed: dict[str, Record] | None = None
        self._positions: dict[str, tuple[int, int] | None] = dict.fromkeys(names)
        self._states: dict[str, Record | None] = {}

    def changes(self) -> list[Message]:
        """The messages that are due."""
        messages = self._list_changes()
        for name, position in self._positions.items():
            found = self._folder.update(name, position)
            if found is None:
                if self._states.get(name, {}) is not None:
                    messages.append(("gone", {"name": name}))
                self._positions[name], self._states[name] = None, None
                continue
            self._positions[name], message = found
            before, self._states[name] = self._states.get(name) or {}, message["state"]
            if message["reset"] or self._positions[name] != position or before != message["state"]:
                messages.append(("run", _changed(before, message)))
        return messages

    def _list_changes(self) -> list[Message]:
        cards = {card["name"]: card for card in self._folder.cards()}
        before, self._listed = self._listed, cards
        known = before or {}
        changed = [card for name, card in cards.items() if known.get(name) != card]
        gone = [name for name in known if name not in cards]
        if before is not None and not changed and not gone:
            return []
        root = str(self._folder.root)
        return [("runs", {"root": root, "reset": before is None, "runs": changed, "gone": gone})]


class ServerSite:
    """One server."""

    document = "server.html"

    def __init__(self, monitor: ServerMonitor) -> None:
        self._monitor = monitor

    def open_page(self, names: Sequence[str]) -> Page:
        """A page about the server, which has no runs of a folder."""
        require("run", ", ".join(names), not names, "left out on the page of a server")
        return _ServerPage(self._monitor)

    def routes(self) -> list[Route]:
        """None."""
        return []


class _ServerPage:
    """A page about a server. "server": rows and parts of the state that changed."""

    def __init__(self, monitor: ServerMonitor) -> None:
        self._monitor = monitor
        self._total: int | None = None
        self._state: Record = {}

    def changes(self) -> list[Message]:
        """The message that is due, if any."""
        total, message = self._monitor.update(self._total)
        before, self._state = self._state, message["state"]
        if total == self._total and before == self._state:
            return []
        self._total = total
        return [("server", _changed(before, message))]


def _changed(before: Record, message: Record) -> Record:
    """The message with the parts of its state that differ from those before, or all if it begins again."""
    state = message["state"]
    parts = {key: part for key, part in state.items() if message["reset"] or before.get(key) != part}
    return message | {"state": parts}
