"""The page over HTTP: who may read, what is sent, and what changes while a page is open."""

import contextlib
import json
import os
import re
import socket
import threading
from http.client import HTTPConnection
from importlib.resources import files

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx2")

import uvicorn
from starlette.testclient import TestClient

from headrace._native import Server
from headrace.cli.main import main
from headrace.dashboard.application import _Guard, make_application
from headrace.dashboard.runs import RunsFolder, RunView
from headrace.dashboard.server_monitor import ServerMonitor
from headrace.dashboard.sites import MOST_RUNS, RunsSite, ServerSite

HERE = "http://127.0.0.1:7448"
TOKEN = b"a long secret"


@pytest.fixture
def client(tmp_path, write_run):
    return TestClient(make_application(RunsSite(RunsFolder(tmp_path / "runs")), None), base_url=HERE)


@pytest.fixture
def guarded(tmp_path, write_run):
    application = make_application(RunsSite(RunsFolder(tmp_path / "runs")), TOKEN)
    return TestClient(application, base_url="http://lab:7448", follow_redirects=False)


class Stream:
    """Server-sent events of a page."""

    def __init__(self, port, query):
        self._connection = HTTPConnection("127.0.0.1", port, timeout=30)
        self._connection.request("GET", f"/api/events?{query}")
        self._response = self._connection.getresponse()
        assert self._response.getheader("Content-Type").startswith("text/event-stream")

    def event(self):
        """The kind and the data of the next event."""
        kind = ""
        while True:
            line = self._response.readline().decode()
            assert line, "the stream has ended"
            name, _, value = line.rstrip("\n").partition(": ")
            kind = value if name == "event" else kind
            if name == "data":
                return kind, json.loads(value)

    def next(self, kind):
        """The data of the next event of this kind."""
        while True:
            found, data = self.event()
            if found == kind:
                return data

    def rest(self):
        return self._response.read()

    def close(self):
        self._connection.close()


@pytest.fixture
def serve_site():
    """Serves a site on a free port; returns the server and a function that opens a stream."""
    with contextlib.ExitStack() as stack:
        yield lambda site: _serve(site, stack)


def _serve(site, stack):
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    server: uvicorn.Server
    application = make_application(site, None, period_seconds=0.02, ending=lambda: server.should_exit)
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    port = listener.getsockname()[1]

    def open_stream(query):
        stream = Stream(port, query)
        stack.callback(stream.close)
        return stream

    def end():
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()

    stack.callback(end)
    return server, open_stream


@pytest.fixture
def serve(tmp_path, write_run, serve_site):
    """Serves the folder of runs."""
    return serve_site(RunsSite(RunsFolder(tmp_path / "runs")))


def test_the_page_and_its_files(client):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    for name in (
        "dashboard.css",
        "runs.js",
        "charts.js",
        "connection.js",
        "diagram.js",
        "format.js",
        "icon.svg",
        "uPlot.iife.min.js",
    ):
        assert client.get(f"/assets/{name}").status_code == 200, name
    for name in ("", "login.html", "runs.html", "../runs.py", "%2e%2e/runs.py", "nothing.js"):
        assert client.get(f"/assets/{name}").status_code == 404, name


def test_every_answer_forbids_what_the_page_does_not_need(client):
    for path in ("/", "/assets/runs.js", "/api/runs", "/nothing"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy


def test_the_page_names_no_other_host(client):
    for path in (
        "/",
        *(
            f"/assets/{name}"
            for name in ("dashboard.css", "runs.js", "charts.js", "connection.js", "diagram.js", "server.js")
        ),
    ):
        text = client.get(path).text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"""["'(`=]//""", text), path
        assert "http" not in text, path


def test_runs_and_names_of_none(client, write_run):
    write_run("one")
    assert [card["name"] for card in client.get("/api/runs").json()["runs"]] == ["one"]
    for name in ("two", "../runs/one", "/etc", ""):
        assert client.get("/api/video", params={"run": name}).status_code == 404


def test_text_that_is_not_unicode_is_escaped(client, write_run):
    (write_run("one").path / "config.json").write_text(r'{"environment": "a\ud800"}')
    write_run("two")
    write_run(os.fsdecode(b"\xff"))
    cards = client.get("/api/runs").json()["runs"]
    assert {card["name"]: card["environment"] for card in cards} == {"one": "a\ud800", "two": "Lander-v3"}


def test_a_video_can_be_read_in_parts(client, write_run):
    (write_run("one").path / "policy.mp4").write_bytes(b"0123456789")
    answer = client.get("/api/video", params={"run": "one"}, headers={"Range": "bytes=2-4"})
    assert (answer.status_code, answer.content) == (206, b"234")
    assert answer.headers["content-type"] == "video/mp4"


def test_a_video_that_is_removed_while_it_is_sent_is_sent_whole(client, write_run, monkeypatch):
    run = write_run("one")
    (run.path / "policy.mp4").write_bytes(b"0123456789")
    find = RunsFolder.video
    opened = []

    def find_and_remove(folder, name):
        opened.append(find(folder, name))
        (run.path / "policy.mp4").unlink()
        return opened[0]

    monkeypatch.setattr(RunsFolder, "video", find_and_remove)
    assert client.get("/api/video", params={"run": "one"}).content == b"0123456789"
    assert opened[0].closed


def test_nothing_can_be_written(client):
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.request(method, "/api/runs").status_code == 405


def test_other_sites_can_not_read_a_page_without_a_token(tmp_path, write_run):
    application = make_application(RunsSite(RunsFolder(tmp_path / "runs")), None)
    for host, status in (
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost:1", 200),
        ("[::1]:1", 200),
    ):
        assert TestClient(application).get("/api/runs", headers={"Host": host}).status_code == status, host


def test_a_token_is_required(guarded, tmp_path):
    for path in ("/", "/api/runs", "/api/events", "/api/video", "/assets/runs.js"):
        assert guarded.get(path).status_code == 401, path
    assert guarded.get("/api/runs", headers={"Authorization": "Bearer wrong"}).status_code == 403
    assert guarded.get("/api/runs", headers={"Authorization": "Bearer"}).status_code == 403
    assert guarded.get("/api/runs", headers={"Authorization": "Bearer a long secret"}).status_code == 200
    # The last byte is a space in Latin-1.
    odd = TestClient(make_application(RunsSite(RunsFolder(tmp_path)), "voilà".encode()))
    assert odd.get("/api/runs", headers={"Authorization": "Bearer voilà".encode()}).status_code == 200
    mine = _Guard(TOKEN)._cookie_name
    for name, status in ((mine, 403), ("headrace-00000000", 401)):  # the latter is of another dashboard on this host
        assert guarded.get("/api/runs", headers={"Cookie": f"{name}=wrong"}).status_code == status


def test_the_form_sets_a_cookie(guarded):
    wrong = guarded.post("/login", data={"token": "wrong"})
    assert wrong.status_code == 403
    assert "set-cookie" not in wrong.headers
    assert guarded.post("/login", content=b"x" * 10_000).status_code == 413
    right = guarded.post("/login", data={"token": "a long secret"})
    assert right.status_code == 303
    cookie = right.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secret" not in cookie
    assert guarded.get("/api/runs").status_code == 200


def test_an_open_page_sees_what_changes(serve, write_run):
    _, open_stream = serve
    run = write_run("one")
    run.progress(1.0)
    stream = open_stream("run=one")
    assert [card["name"] for card in stream.next("runs")["runs"]] == ["one"]
    assert stream.next("run")["reset"]
    run.append_text('{"kind": "progress", ')
    run.append_text('"seconds": 1.5, "mean_return": 7.0}\n')
    message = stream.next("run")
    assert (message["reset"], message["series"]["mean_return"]) == (False, [7.0])
    assert "evaluations" not in message["state"]
    run.append("evaluation", 2.0, mean_return=8.0)
    assert [each["mean_return"] for each in stream.next("run")["state"]["evaluations"]] == [8.0]
    run.summary()
    message = stream.next("run")
    assert message["state"]["summary"]["stopped_by"] == "steps"
    assert not set(message["state"]) - {"summary", "status"}


def test_runs_come_and_go_while_a_page_is_open(serve, write_run):
    _, open_stream = serve
    write_run("other")
    stream = open_stream("run=late")
    assert [card["name"] for card in stream.next("runs")["runs"]] == ["other"]
    assert stream.next("gone") == {"name": "late"}
    run = write_run("late")
    run.progress(1.0)
    assert [card["name"] for card in stream.next("runs")["runs"]] == ["late"]
    message = stream.next("run")
    while not message["series"]["seconds"]:
        message = stream.next("run")
    assert message["series"]["seconds"] == [1.0]
    run.path.rename(run.path.with_name("moved"))
    expected = {"moved is there", "late is gone", "the page of late is gone"}
    while expected:  # in any order, and a change of the card before may be among them
        kind, data = stream.event()
        if kind == "runs":
            expected -= {f"{card['name']} is there" for card in data["runs"]}
            expected -= {f"{name} is gone" for name in data["gone"]}
        elif kind == "gone":
            expected.remove(f"the page of {data['name']} is gone")


def test_a_server_that_ends_closes_its_streams(serve, tmp_path):
    server, open_stream = serve
    stream = open_stream("")
    assert stream.next("runs") == {"root": str(tmp_path / "runs"), "reset": True, "runs": [], "gone": []}
    server.should_exit = True
    stream.rest()


def test_an_open_page_sees_a_server(serve_site):
    watched = Server()
    address = watched.listen("unix:@")
    monitor = ServerMonitor(address, None, period_seconds=1_000.0)  # so that no answer is late
    monitor.look()
    _, open_stream = serve_site(ServerSite(monitor))
    stream = open_stream("")
    message = stream.next("server")
    assert (message["reset"], message["state"]["connection"]["address"]) == (True, address)
    assert (message["state"]["tables"], message["series"]["seconds"]) == ([], [])
    watched.put("a/reports", b"hello")
    monitor.look()
    message = stream.next("server")
    assert message["state"]["mailboxes"][0]["messages"] == 1
    assert len(message["series"]["seconds"]) == 1
    assert "tables" not in message["state"]
    watched.close()
    monitor.look()
    message = stream.next("server")
    assert message["state"]["connection"]["status"] == "unreachable"
    assert message["series"]["inserts"] == [None]
    monitor.close()


def test_the_page_of_a_server_has_no_runs():
    client = TestClient(make_application(ServerSite(ServerMonitor("unix:@none", None)), None), base_url=HERE)
    assert "server.js" in client.get("/").text
    assert client.get("/assets/server.js").status_code == 200
    assert client.get("/api/runs").status_code == 404
    assert client.get("/api/events?run=a").status_code == 400


def test_a_token_that_a_server_refuses_is_one_line(tmp_path, capsys):
    (tmp_path / "token").write_text("another secret 0123")
    server = Server(token=b"a long secret 0123")
    address = server.listen("tcp://127.0.0.1:0")
    assert main(["dashboard", address, "--port", "0", "--token-file", str(tmp_path / "token")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    server.close()


def test_a_page_shows_a_limited_number_of_runs(client):
    answer = client.get("/api/events", params={"run": [str(n) for n in range(MOST_RUNS + 1)]})
    assert answer.status_code == 400
    assert "run is given 13 times" in answer.text


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["{}/nothing"], "runs_dir is"),
        (["{}", "--port", "65536"], "port is 65536"),
        (["{}", "--host", "0.0.0.0"], "add --page-token-file FILE"),
        (["{}", "--host", "300.1.1.1", "--page-token-file", "{}/token"], "can't listen on '300.1.1.1'"),
        (["{}", "--page-token-file", "{}/empty"], "a file that is not empty"),
        (["{}", "--token-file", "{}/token"], "the page's is --page-token-file"),
        (["redis://127.0.0.1:1"], "must be a Headrace server's"),
        (["tcp://127.0.0.1"], "the port is missing"),
    ],
)
def test_mistakes_are_one_line(words, complaint, tmp_path, capsys):
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "empty").write_text("\n")
    assert main(["dashboard", *(word.format(tmp_path) for word in words)]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


def test_a_port_in_use_is_one_line(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["dashboard", str(tmp_path), "--port", str(port)]) == 2
    assert f"port {port}: Address already in use" in capsys.readouterr().err


def test_the_password_of_a_server_is_not_shown(tmp_path, write_run):
    run = write_run("one")
    path = run.path / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"server": {"address": "redis://:s3cret@10.0.0.5:6379/0", "run": "r"}}))
    assert RunView(run.path).config()["server"] == {"address": "redis://10.0.0.5:6379/0", "run": "r"}


def test_dashboards_on_one_host_have_cookies_of_different_names(guarded):
    """And the form's files need no token."""
    set_cookie = guarded.post("/login", data={"token": "a long secret"}).headers["set-cookie"]
    assert re.match(r"headrace-[0-9a-f]{8}=", set_cookie)
    assert _Guard(b"another")._cookie_name not in set_cookie
    assert "location.hash" in guarded.get("/assets/login.js", headers={"Cookie": ""}).text
    assert "--page-token-file" in (files("headrace.dashboard") / "assets/login.html").read_text()
