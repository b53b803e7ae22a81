"""Signing in with a browser: the cookie, what ends a session, and how many there may be."""

import orjson
import pytest

from miniqueue.access.users import Users
from miniqueue.broker.runtime.accounts import Memory, Purpose
from miniqueue.server.dashboard import sessions
from miniqueue.server.dashboard.models.facts import Facts
from miniqueue.server.dashboard.sessions import IDLE_SECONDS, SESSION_BYTES, Sessions
from miniqueue.server.security.authentication import MAX_CONNECTION_FAILURES
from tests.server.access import EVERYBODY, Clock, sign_in_for, token_of, user
from tests.server.dashboard.support import dashboard

ADMIN = "admin-of-all"


def credentials(name, password=None):
    return orjson.dumps({"user": name, "password": token_of(name).decode() if password is None else password})


async def test_without_users_everybody_is_signed_in():
    async with dashboard() as world:
        for reply in (await world.get("/ui/session"), await world.act("POST", "/ui/session", body=b"{}")):
            session = reply.json
            assert (session["user"], session["signedIn"], session["needsSignIn"]) == (None, True, False)
            assert session["rights"] == ["publish", "consume", "monitor", "admin"]
            assert (session["respPort"], session["respTls"]) == (6379, False)
            assert b"set-cookie" not in reply.headers


async def test_signing_in_gives_a_cookie_that_scripts_and_other_sites_cannot_use():
    async with dashboard(sign_in_for()) as world:
        assert (await world.get("/ui/session")).code == (401, "NOAUTH")
        assert (await world.get("/ui/data/overview")).code == (401, "NOAUTH")
        reply = await world.act("POST", "/ui/session", body=credentials("monitor"))
        session = reply.json
        assert (session["user"], session["signedIn"], session["needsSignIn"]) == ("monitor", True, True)
        assert (session["rights"], session["roles"]) == ([], [{"role": "monitor", "topics": ["orders"]}])
        cookie, *attributes = reply.headers[b"set-cookie"].split(b"; ")
        assert cookie.startswith(b"miniqueue-8081=")
        assert len(cookie) > len(b"miniqueue-8081=") + 40
        assert attributes == [b"Path=/ui", b"HttpOnly", b"SameSite=Strict"]
        signed_in = await world.get("/ui/session", (b"cookie", b"other=1; " + reply.cookie))
        assert signed_in.json["user"] == "monitor"


async def test_over_tls_the_cookie_is_never_sent_without_it():
    facts = Facts(name="here", monitor_port=9, resp_port=7, is_exposed=True)
    async with dashboard(sign_in_for(), facts) as world:
        reply = await world.act("POST", "/ui/session", body=credentials("monitor"))
        assert reply.headers[b"set-cookie"].endswith(b"; Secure")


async def test_the_password_is_not_in_the_reply_and_the_token_is_not_kept():
    async with dashboard(sign_in_for()) as world:
        reply = await world.act("POST", "/ui/session", body=credentials(ADMIN))
        assert token_of(ADMIN) not in reply.body
        token = reply.cookie.partition(b"=")[2]
        assert token not in reply.body
        assert token.decode() not in repr(vars(world.app._gate.sessions))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (credentials(ADMIN, "wrong"), (401, "WRONGPASS")),
        (credentials("missing", "wrong"), (401, "WRONGPASS")),
        (credentials(ADMIN, ""), (401, "NOAUTH")),
        (b"", (400, "BADLINE")),
        (b"{", (400, "BADLINE")),
        (b"[]", (400, "BADLINE")),
        (b'{"user":"ada"}', (400, "BADLINE")),
        (b'{"user":7,"password":"x"}', (400, "BADLINE")),
        (b'{"user":"' + b"a" * 20_000 + b'","password":"x"}', (400, "BADLINE")),
    ],
)
async def test_who_cannot_sign_in_gets_no_cookie(body, expected):
    async with dashboard(sign_in_for()) as world:
        reply = await world.act("POST", "/ui/session", body=body)
        assert reply.code == expected
        assert b"set-cookie" not in reply.headers
        assert b"www-authenticate" not in reply.headers


async def test_who_guesses_too_often_is_blocked():
    async with dashboard(sign_in_for()) as world:
        for number in range(MAX_CONNECTION_FAILURES):
            await world.act("POST", "/ui/session", body=credentials(ADMIN, f"guess {number}"))
        reply = await world.act("POST", "/ui/session", body=credentials(ADMIN, "one more"))
        assert reply.status == 429
        assert b"retry-after" in reply.headers


async def test_signing_out_ends_the_session():
    async with dashboard(sign_in_for()) as world:
        cookie = await world.sign_in_as(ADMIN)
        reply = await world.act("DELETE", "/ui/session", cookie)
        assert (reply.status, reply.json) == (200, {"signedIn": False})
        assert b"Max-Age=0" in reply.headers[b"set-cookie"]
        assert (await world.get("/ui/session", cookie)).code == (401, "NOAUTH")


async def test_signing_in_again_ends_the_session_of_the_same_browser():
    async with dashboard(sign_in_for()) as world:
        cookie = await world.sign_in_as(ADMIN)
        assert (await world.act("POST", "/ui/session", cookie, body=credentials("monitor"))).status == 200
        assert (await world.get("/ui/session", cookie)).code == (401, "NOAUTH")


async def test_a_session_ends_when_it_was_not_used_for_long():
    async with dashboard(sign_in_for()) as world:
        cookie = await world.sign_in_as(ADMIN)
        world.seconds.now_seconds += IDLE_SECONDS - 1
        assert (await world.get("/ui/session", cookie)).status == 200
        world.seconds.now_seconds += IDLE_SECONDS - 1
        assert (await world.get("/ui/session", cookie)).status == 200
        world.seconds.now_seconds += IDLE_SECONDS
        for path in ("/ui/session", "/ui/data/topics", "/ui/api/topics", "/ui/live"):
            assert (await world.get(path, cookie)).code == (401, "NOAUTH")


@pytest.mark.parametrize(
    "users",
    [[each for each in EVERYBODY if each.name != ADMIN], [user(ADMIN, admin=("other.*",))]],
    ids=["removed", "changed"],
)
async def test_a_session_ends_when_its_user_is_removed_or_changed(users):
    async with dashboard(sign_in_for()) as world:
        cookie = await world.sign_in_as(ADMIN)
        world.sign_in.replace(Users(EVERYBODY))
        assert (await world.get("/ui/session", cookie)).status == 200
        world.sign_in.replace(Users(users))
        assert (await world.get("/ui/session", cookie)).code == (401, "NOAUTH")
        assert len(world.app._gate.sessions) == 0


@pytest.mark.parametrize(
    "cookie", [b"miniqueue-8081=", b"miniqueue-8081=guess", b"miniqueue-9999=x", b"\xff;=;\x00", b"miniqueue-8081=\xff"]
)
async def test_another_cookie_is_no_session(cookie):
    async with dashboard(sign_in_for()) as world:
        assert (await world.get("/ui/session", (b"cookie", cookie))).code == (401, "NOAUTH")


@pytest.mark.parametrize(
    "other",
    [b'prefs={"a": 1}', b"a[b]=c", b"flag; x@y=1; ", b'quoted="a;b', b"\xff=\xff", b"miniqueue-80810=x", b"=;;"],
)
async def test_cookies_of_other_programs_on_this_machine_do_not_hide_the_session(other):
    async with dashboard(sign_in_for()) as world:
        _, cookie = await world.sign_in_as("monitor")
        for sent in (other + b"; " + cookie, other + b";" + cookie + b";" + other):
            assert (await world.get("/ui/session", (b"cookie", sent))).json["user"] == "monitor"


async def test_a_cookie_of_backslashes_is_read_in_one_pass():
    """`http.cookies` takes seconds for it, since it copies the rest of the value for each backslash."""
    async with dashboard(sign_in_for()) as world:
        _, cookie = await world.sign_in_as("monitor")
        hostile = b'a="' + rb"\"" * 500_000 + b'"'
        assert (await world.get("/ui/session", (b"cookie", hostile + b"; " + cookie))).json["user"] == "monitor"


async def test_scripts_may_use_an_authorization_header_instead():
    async with dashboard(sign_in_for()) as world:
        bearer = b"authorization", b"Bearer " + token_of(ADMIN)
        assert (await world.get("/ui/session", bearer)).json["user"] == ADMIN
        wrong = b"authorization", b"Bearer wrong"
        cookie = await world.sign_in_as(ADMIN)
        assert (await world.get("/ui/session", wrong, cookie)).status == 401


def made(memory=None):
    return Sessions(lambda _user: True, memory or Memory(has_users=True), Clock())


def test_a_user_may_have_a_limited_number_of_sessions(monkeypatch):
    monkeypatch.setattr(sessions, "MAX_SESSIONS_OF_USER", 2)
    each = made()
    tokens = [each.begin(user("ada")) for _ in range(3)]
    assert [each.user_of(token) is not None for token in tokens] == [False, True, True]
    each.user_of(tokens[1])
    each.begin(user("ada"))
    assert [each.user_of(token) is not None for token in tokens] == [False, True, False]  # the one unused for longest


def test_all_users_may_have_a_limited_number_of_sessions(monkeypatch):
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
    each = made()
    tokens = [each.begin(user(name)) for name in ("ada", "bob", "eve")]
    assert [each.user_of(token) is not None for token in tokens] == [False, True, True]


def test_sessions_are_charged_to_their_users():
    memory = Memory(has_users=True)
    each = made(memory)
    tokens = [each.begin(user("ada")) for _ in range(3)]
    assert memory.users["ada"].amounts() == {Purpose.CONNECTIONS: 3 * SESSION_BYTES}
    for token in tokens:
        each.end(token)
        each.end(token)
    assert memory.users.keys() == set()


def test_sessions_that_have_ended_make_room():
    clock = Clock()
    each = Sessions(lambda _user: True, Memory(has_users=True), clock)
    each.begin(user("ada"))
    clock.now_seconds += IDLE_SECONDS
    each.begin(user("bob"))
    assert len(each) == 1
