"""What the dashboard answers at which path, and with which headers; what is left to the monitoring port."""

import gzip

import pytest

from miniqueue.server.dashboard.replies import CONTENT_SECURITY_POLICY
from tests.server.access import sign_in_for
from tests.server.dashboard.support import HOST, OWN_ORIGIN, dashboard


async def test_the_root_leads_to_the_page():
    async with dashboard() as world:
        for path in ("/", "/ui"):
            reply = await world.get(path)
            assert (reply.status, reply.headers[b"location"]) == (303, b"/ui/")


@pytest.mark.parametrize(
    "path", ["/ui/", "/ui/topics", "/ui/topics/orders/messages/3-48213", "/ui/sign-in", "/ui/x.js"]
)
async def test_every_view_is_the_page(path):
    async with dashboard(sign_in_for()) as world:
        reply = await world.get(path)
        assert (reply.status, reply.headers[b"content-type"]) == (200, b"text/html; charset=utf-8")
        assert b"miniqueue" in reply.body


@pytest.mark.parametrize(
    "path", ["/ui/", "/ui/session", "/ui/data/overview", "/ui/api/topics", "/ui/assets/nothing.js"]
)
async def test_every_reply_has_the_headers_that_protect_the_page(path):
    async with dashboard(sign_in_for()) as world:
        reply = await world.get(path)
        assert reply.headers[b"content-security-policy"] == CONTENT_SECURITY_POLICY
        assert reply.headers[b"x-content-type-options"] == b"nosniff"
        assert reply.headers[b"referrer-policy"] == b"no-referrer"
        assert reply.headers[b"cross-origin-opener-policy"] == b"same-origin"
        assert reply.headers[b"cross-origin-resource-policy"] == b"same-origin"
        assert reply.headers[b"cache-control"] == (b"no-cache" if path == "/ui/" else b"no-store")
        assert b"www-authenticate" not in reply.headers  # it would open a dialog of the browser


async def test_files_are_sent_compressed_and_only_when_they_have_changed():
    async with dashboard() as world:
        plain = await world.get("/ui/assets/index.html")
        packed = await world.get("/ui/assets/index.html", (b"accept-encoding", b"br, gzip"))
        assert packed.headers[b"content-encoding"] == b"gzip"
        assert gzip.decompress(packed.body) == plain.body
        again = await world.get("/ui/assets/index.html", (b"if-none-match", plain.headers[b"etag"]))
        assert (again.status, again.body) == (304, b"")
        head = await world.ask("HEAD", "/ui/assets/index.html")
        assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize(
    "name",
    [
        "nothing.js",
        "../app.py",
        "..%2fapp.py",
        "../__init__.py",
        "./index.html",
        "/etc/passwd.txt",
        "",
        "a\0.js",
        "app.py",
        "a" * 300 + ".js",
        "views/" * 2_000 + "topics.js",
    ],
)
async def test_there_are_no_other_files(name):
    async with dashboard() as world:
        assert (await world.get("/ui/assets/" + name)).code == (404, "NOTFOUND")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/ui/", 405),
        ("DELETE", "/ui/data/topics", 405),
        ("PUT", "/ui/session", 405),
        ("POST", "/ui/live", 405),
        ("HEAD", "/ui/live", 405),
        ("GET", "/ui/data/nothing", 404),
        ("GET", "/ui/data/topics?what=1", 400),
    ],
)
async def test_other_requests_are_refused(method, path, status):
    async with dashboard() as world:
        assert (await world.act(method, path)).status == status


async def test_errors_are_those_of_the_api():
    async with dashboard() as world:
        world.broker.memory.set_limit(-1, "-max-memory")
        reply = await world.get("/ui/live")
        assert (reply.code, reply.headers[b"retry-after"]) == ((429, "LIMIT"), b"1")  # it is soon free again


async def test_everything_else_is_the_monitoring_port():
    async with dashboard() as world:
        assert (await world.get("/livez")).json == {"status": "ok"}
        assert (await world.get("/uix")).code == (404, "NOTFOUND")
        assert (await world.get("/nothing")).code == (404, "NOTFOUND")
        assert b"content-security-policy" not in (await world.get("/livez")).headers


@pytest.mark.parametrize("path", ["/", "/ui/", "/ui/data/overview", "/ui/api/topics", "/ui/session"])
async def test_without_users_only_pages_of_this_machine_are_answered(path):
    async with dashboard() as world:
        assert (await world.get(path, host=b"evil.example:8081")).code == (403, "BADHOST")
    async with dashboard(sign_in_for()) as world:
        assert (await world.get(path, host=b"broker.example:8081")).status != 403


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((b"origin", b"https://evil.example"),),
        ((b"origin", b"http://localhost:8080"),),
        ((b"origin", b"null"),),
        ((b"origin", OWN_ORIGIN), (b"origin", OWN_ORIGIN)),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/ui/api/publish/orders"), ("DELETE", "/ui/api/topics/orders"), ("POST", "/ui/session")],
)
async def test_what_changes_something_needs_the_origin_of_the_page(method, path, headers):
    async with dashboard() as world:
        await world.publish(b"orders", b"x")
        assert (await world.ask(method, path, *headers)).code == (403, "BADORIGIN")
        assert world.broker.inspect.depth(b"orders") == 1


async def test_over_tls_a_page_without_tls_is_another_site():
    async with dashboard() as world:
        for scheme, origin, status in (("https", b"http", 403), ("https", b"https", 201), ("http", b"https", 201)):
            headers = b"origin", origin + b"://" + HOST
            reply = await world.ask("POST", "/ui/api/publish/orders", headers, scheme=scheme)
            assert reply.status == status


@pytest.mark.parametrize("path", ["/ui/api/topics", "/ui/api?path=%2Ftopics", "/ui/data/topics", "/ui/session"])
async def test_pages_of_other_sites_cannot_keep_the_broker_busy(path):
    """An image, or a request in the mode `no-cors`, has no Origin; another port of this machine is the same site."""
    async with dashboard() as world:
        for site in (b"cross-site", b"same-site"):
            assert (await world.get(path, (b"sec-fetch-site", site))).code == (403, "BADORIGIN")
            assert (await world.get("/ui/live?view=topics", (b"sec-fetch-site", site))).code == (403, "BADORIGIN")
            assert (await world.get("/ui/topics/orders", (b"sec-fetch-site", site))).status == 200  # a link
        for site in (b"same-origin", b"none"):
            assert (await world.get(path, (b"sec-fetch-site", site))).status == 200


async def test_a_page_of_another_site_reads_nothing():
    async with dashboard() as world:
        assert (await world.get("/ui/data/overview", (b"origin", b"https://evil.example"))).code == (403, "BADORIGIN")
        assert (await world.get("/ui/live", (b"origin", b"https://evil.example"))).code == (403, "BADORIGIN")
