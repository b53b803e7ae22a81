"""One Chromium and one broker for the tests of a module; each test has a browser context of its own.

A page that logs an error, breaks the policy of its scripts, or throws, fails its test.
"""

import shutil
from collections.abc import Iterator

import pytest

from tests.acceptance.process import FREE_PORTS, BrokerProcess
from tests.browser.browsing import LIMIT_MS, PATIENCE, OpenPage, Watch

CHROMIUM = shutil.which("chromium-headless-shell")


@pytest.fixture(scope="module")
def chromium():
    """A headless Chromium; the fixtures of a module end before another module may have an event loop."""
    if CHROMIUM is None:
        pytest.skip("chromium-headless-shell is not installed")
    from playwright.sync_api import expect, sync_playwright  # noqa: PLC0415 - only where there is a browser

    expect.set_options(timeout=LIMIT_MS)
    with sync_playwright() as playwright:
        # Chromium has no sandbox if it runs as root.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker without users, whose page every client on this machine may use."""
    process = BrokerProcess(
        [*FREE_PORTS, "-storage", "memory", "-period", "50ms"], cwd=tmp_path_factory.mktemp("broker")
    )
    try:
        yield process.wait_until_ready()
        assert process.is_alive()
        process.stop()
    finally:
        process.end()


@pytest.fixture
def open_page(chromium) -> Iterator[OpenPage]:
    """Open pages in contexts of their own; whatever goes wrong in one of them fails the test."""
    watches: list[Watch] = []

    def open_(base_url: str, path: str = "/ui/", **options: object):
        context = chromium.new_context(base_url=base_url, **({"viewport": {"width": 1280, "height": 900}} | options))
        context.set_default_timeout(LIMIT_MS)
        context.add_init_script(PATIENCE)
        page = context.new_page()
        watches.append(Watch(page))
        page.goto(path)
        return page

    yield open_
    for watch in watches:
        watch.page.context.close()
    assert [problem for watch in watches for problem in watch.problems] == []


@pytest.fixture
def page(open_page: OpenPage, broker: BrokerProcess):
    """The overview of the broker of the module."""
    return open_page(f"http://127.0.0.1:{broker.monitor_port}")
