"""A web page cannot use the browser of a person who can reach the broker."""

import pytest

from miniqueue.server.asgi.browser_pages import is_for_loopback, is_from_another_site
from miniqueue.server.monitor.app import MonitorApp
from tests.fakes import FakeConsumer, FaultyStore, ManualClock, broker_on
from tests.serving import serving

EVIL = b"https://evil.example"


@pytest.mark.parametrize(
    "headers",
    [
        [(b"host", b"localhost:8080")],
        [],
        [(b"host", b"localhost:8080"), (b"origin", b"https://localhost:8080")],
        [(b"host", b"inside:8080"), (b"origin", b"https://queue.example"), (b"sec-fetch-site", b"same-origin")],
        [(b"host", b"localhost:8080"), (b"sec-fetch-site", b"none")],
    ],
    ids=["a program", "no headers", "the same site", "the same site before a proxy", "typed by a person"],
)
def test_requests_that_no_other_site_sent(headers):
    assert not is_from_another_site(headers)


@pytest.mark.parametrize(
    "origin",
    [EVIL, b"null", b"https://localhost:8443", b"https://localhost", b"https://localhost:8080.evil.example", b"://"],
)
@pytest.mark.parametrize("site", [[], [(b"sec-fetch-site", b"cross-site")], [(b"sec-fetch-site", b"same-site")]])
def test_requests_of_another_site(origin, site):
    assert is_from_another_site([(b"host", b"localhost:8080"), (b"origin", origin), *site])
    assert is_from_another_site([(b"origin", origin), *site])
    assert is_from_another_site([(b"host", b""), (b"origin", origin), *site])


async def test_a_page_publishes_nothing(certificates):
    async with serving(certificates) as served:
        assert (await served.request("POST", "/publish/t", b"x", (b"origin", EVIL)))[0] == 403
        assert (await served.request("DELETE", "/t", b"", (b"origin", EVIL)))[0] == 403
        assert (await served.request("OPTIONS", "/t", b"", (b"origin", EVIL)))[0] == 403
        own = f"https://localhost:{served.port}".encode()
        assert (await served.request("POST", "/publish/t", b"y", (b"origin", own)))[0] == 201
        assert FakeConsumer(served.broker, b"t").drain() == [b"y"]


@pytest.mark.parametrize("host", [b"127.0.0.1", b"127.0.0.1:8081", b"[::1]:80", b"LOCALHOST"])
def test_names_of_this_machine(host):
    assert is_for_loopback([(b"host", host)])


@pytest.mark.parametrize("host", [b"evil.example:8081", b"127.0.0.1.evil.example", b"", b"[", b"x@evil.example"])
def test_other_names(host):
    assert not is_for_loopback([(b"host", host)])
    assert not is_for_loopback([(b"host", b"localhost"), (b"host", host)])
    assert not is_for_loopback([])


@pytest.mark.parametrize(
    ("path", "status"),
    [("/healthz", 200), ("/readyz", 200), ("/stats", 403), ("/metrics", 403), ("/backup", 403), ("/changes", 403)],
)
async def test_names_of_topics_are_reported_under_a_name_of_this_machine_only(path, status):
    sent = []

    async def send(message):
        sent.append(message)

    app = MonitorApp(broker_on(FaultyStore(), ManualClock()))
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"evil.example:8081")],
    }
    await app(scope, None, send)
    assert sent[0]["status"] == status
    assert b"access-control-allow-origin" not in dict(sent[0]["headers"])
