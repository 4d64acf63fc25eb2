"""The page in a headless Chromium, if the machine has one: pip install playwright, and a package of Chromium."""

import re
import shutil
import signal
import subprocess
import sys

import pytest

from headrace._native import Client, Server, Signature

pytest.importorskip("uvicorn")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason=f"none of {', '.join(BROWSERS)} is here")]


class Dashboard:
    """`headrace dashboard` on the same port each time it is started."""

    def __init__(self, subject):
        self._subject = str(subject)
        self._port = "0"
        self.start()

    def start(self):
        command = [sys.executable, "-m", "headrace", "dashboard", self._subject, "--port", self._port]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address, self._port = re.fullmatch(
            r"dashboard at (http.*:(\d+)/)\n", self._process.stdout.readline()
        ).groups()

    def stop(self):
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=30)


@pytest.fixture
def dashboard(tmp_path, write_run):
    started = Dashboard(tmp_path / "runs")
    yield started
    started.stop()


@pytest.fixture
def browser():
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser):
    """Opens the page; at the end it must have reported no error."""
    errors = []

    def open_(address, body="#run-body", **options):
        page = browser.new_page(**options)
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(address)
        page.wait_for_selector(f"{body}:not([hidden])")
        return page

    yield open_
    # what the browser itself says about a server that a test stopped
    assert [error for error in errors if "net::ERR" not in error] == []


def tile(page, note):
    return page.locator(".tile", has_text=note).locator("b")


def test_updates_arrive_and_a_restarted_server_is_found(dashboard, open_page, write_run):
    run = write_run("one")
    run.progress(5.0)
    page = open_page(dashboard.address)
    see = playwright.expect
    see(tile(page, "environment steps")).to_have_text("5,000")
    see(page.locator("#diagram")).to_contain_text("learner: bottleneck")
    run.progress(6.0, bottleneck="actors")
    see(tile(page, "environment steps")).to_have_text("6,000", timeout=30_000)
    see(page.locator("#diagram")).to_contain_text("actors: bottleneck")
    dashboard.stop()
    see(page.locator("#connection")).to_contain_text("reconnecting", timeout=30_000)
    run.progress(7.0)
    dashboard.start()
    see(tile(page, "environment steps")).to_have_text("7,000", timeout=60_000)
    see(page.locator("#connection")).to_have_text("live")
    write_run("later").progress(1.0)
    see(page.locator("#count")).to_have_text("2 in all", timeout=30_000)


def test_the_keyboard_searches_selects_and_compares(dashboard, open_page, write_run):
    for name in ("alpha", "beta", "gamma"):
        run = write_run(name)
        run.progress(5.0)
        run.progress(6.0)
    page = open_page(dashboard.address)
    see = playwright.expect
    page.focus("#search")
    page.keyboard.type("beta")
    see(page.locator("#runs li")).to_have_count(1)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    see(page.locator("#run-note")).to_contain_text("beta")
    page.get_by_label("Search").fill("")
    page.get_by_label("Compare alpha").check()
    see(page.locator("#comparison-table tbody tr")).to_have_count(2)
    see(page.locator("#comparison canvas")).to_have_count(1)
    assert "compare=beta&compare=alpha" in page.url
    page.reload()
    see(page.locator("#comparison-table tbody tr")).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_does_not_scroll_sideways(scheme, dashboard, open_page, write_run):
    run = write_run("a-run-with-a-long-name-" * 5)
    run.progress(5.0)
    run.append("exit", 5.5, role="actor 0", reason="exit code 1: " + "x" * 200)
    run.append("evaluation", 5.0, environment_steps=5_000, mean_return=1.0, std_return=0.5, episodes=10)
    page = open_page(dashboard.address, viewport={"width": 400, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    names = page.evaluate(
        "[...document.querySelectorAll('button, input, [role=img]')].filter((each) => each.offsetParent)"
        ".map((each) => each.getAttribute('aria-label') || each.innerText || each.labels?.[0]?.innerText || '')"
    )
    assert "" not in names


def open_server(address):
    """A server with a table of 1,000 transitions and a mailbox."""
    server = Server()
    listening = server.listen(address)
    client = Client(listening)
    client.open_table("lander/replay", Signature((4,), "float32"), fresh=True, capacity=1_000)
    client.claim("lander/learner", 7)
    return server, client, listening


@pytest.mark.parametrize("width", [400, 1400])
def test_a_server_is_shown_while_it_is_away_and_after_its_restart(width, open_page):
    server, client, address = open_server("unix:@")
    started = Dashboard(address)
    see = playwright.expect
    try:
        page = open_page(started.address, "#server-body", viewport={"width": width, "height": 800})
        see(page.locator("#diagram")).to_contain_text("lander/replay")
        see(page.locator("#runs-table")).to_contain_text("yes")
        see(page.locator("#claims")).to_have_text("lander/learner")
        client.put("lander/reports", b"hello")
        see(page.locator("#mailboxes")).to_contain_text("lander/reports", timeout=30_000)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        client.close()
        server.close()
        see(page.locator("#alert")).to_contain_text("can't be reached", timeout=30_000)
        server, client, _ = open_server(address)
        see(page.locator("#alert")).to_be_hidden(timeout=60_000)
        see(page.locator("#server-note")).to_contain_text("restarted once")
        see(page.locator("#connection")).to_have_text("live")
    finally:
        started.stop()
        client.close()
        server.close()
