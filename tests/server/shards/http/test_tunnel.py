"""Requests through a tunnel are served as by the owner's own server, and what ends in between is reported."""

import asyncio

import pytest
import structlog.testing
from starlette.types import Receive, Scope, Send

from miniqueue.access.users import User
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.errors import InternalError, LimitReachedError
from miniqueue.errors.requests import OutcomeUnknownError, ShardAwayError
from miniqueue.server.asgi.replies import CREATED, EMPTY_REPLY, Reply, start_message
from miniqueue.server.asgi.request import ACCOUNT_KEY, SIGNED_IN_KEY, read_body
from miniqueue.server.shards.http import frames, serving
from tests.server.shards.http.tunnels import OWNER, Client, owner_of, scope_of, until

PART = {"type": "http.response.body", "body": b"part", "more_body": True}
ADA = User("ada", "", roles={})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await read_body(receive, 1 << 30)
    assert body is not None
    await Reply(200, scope["raw_path"] + b"?" + scope["query_string"] + b" " + body, b"text/plain")(
        scope, receive, send
    )


async def created(scope: Scope, receive: Receive, send: Send) -> None:
    await read_body(receive, 1 << 30)
    await CREATED(scope, receive, send)


class Held:
    """An application that begins its reply, if told so, and then waits for the client to go."""

    def __init__(self, *, begins: bool) -> None:
        self._begins = begins
        self.has_begun, self.is_gone = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._begins:
            await send(start_message(200, []))
            await send(PART)
        self.has_begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        self.is_gone.set()


# --- what passes ----------------------------------------------------------------------------------------------


async def test_request_and_reply_pass_as_they_are(tmp_path):
    client = Client(b"he", b"llo")

    async with owner_of(tmp_path, echo) as owner:
        await owner.ask(client, scope_of("POST", "/publish/%FF", query=b"key=%00"))

    assert client.status == 200
    assert client.body == b"/publish/%FF?key=%00 hello"
    assert (b"content-type", b"text/plain") in client.sent[0]["headers"]


async def test_the_owner_sees_client_and_headers_but_no_credentials(tmp_path):
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await CREATED(scope, receive, send)

    async with owner_of(tmp_path, app, lambda name: ADA if name == "ada" else None) as owner:
        await owner.ask(Client(b""), scope_of("POST", "/publish/t", (b"authorization", b"Basic x")), user="ada")
        await owner.ask(Client(b""), user="removed")

    assert seen[0]["client"] == ("10.0.0.1", 50_000)
    assert seen[0]["headers"] == [(b"host", b"localhost")]
    assert seen[0][SIGNED_IN_KEY] is ADA
    assert SIGNED_IN_KEY not in seen[1]


async def test_large_bodies_pass_while_neither_end_holds_them(tmp_path):
    size_bytes, longest = 0, 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal size_bytes, longest
        while (message := await receive())["type"] == "http.request":
            size_bytes += len(message["body"])
            longest = max(longest, len(message["body"]))
            if not message["more_body"]:
                break
        await Reply(200, b"x" * size_bytes)(scope, receive, send)

    client = Client(*[b"y" * 300_000] * 30)
    async with owner_of(tmp_path, app) as owner:
        await owner.ask(client)

    assert size_bytes == len(client.body) == 9_000_000
    assert longest <= frames.PIECE_BYTES
    assert max(len(message.get("body", b"")) for message in client.sent) <= frames.PIECE_BYTES


async def test_an_owner_waits_for_a_client_that_does_not_read(tmp_path):
    sent, may_read = [], asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start_message(200, []))
        for number in range(100):
            await send({**PART, "body": b"z" * (256 << 10), "more_body": number < 99})
            sent.append(number)

    class SlowClient(Client):
        async def send(self, message) -> None:
            await may_read.wait()
            await super().send(message)

    client = SlowClient(b"")
    async with owner_of(tmp_path, app) as owner:
        asking = asyncio.create_task(owner.ask(client))
        await until(lambda: bool(sent))
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert len(sent) < 10  # what sockets hold, and no more
        may_read.set()
        await asking

    assert len(client.body) == 100 * (256 << 10)


async def test_a_reply_without_a_body_is_one_message_if_the_server_takes_it(tmp_path):
    async with owner_of(tmp_path, created) as owner:
        one, two = Client(b"x"), Client(b"x")
        await owner.ask(one, scope_of() | {"extensions": {EMPTY_REPLY: {}}})
        await owner.ask(two)

    assert [message["type"] for message in one.sent] == [EMPTY_REPLY]
    assert one.status == two.status == 201
    assert [message["type"] for message in two.sent] == ["http.response.start", "http.response.body"]


async def test_commands_and_deliveries_pass_at_the_same_time(tmp_path):
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start_message(200, []))
        await send({**PART, "body": b""})
        while (message := await receive())["type"] == "http.request":
            await send({**PART, "body": message["body"].upper(), "more_body": message["more_body"]})
            if not message["more_body"]:
                break

    client = Client()
    async with owner_of(tmp_path, app) as owner:
        asking = asyncio.create_task(owner.ask(client))
        await client.wait_for(2)
        client.upload(b"ack")
        await client.wait_for(3)
        client.upload(b"end", is_last=True)
        await asking

    assert client.body == b"ACKEND"
    assert client.is_whole


# --- tunnels are used again -----------------------------------------------------------------------------------


async def test_a_tunnel_is_used_again_after_a_whole_request(tmp_path):
    async with owner_of(tmp_path, created) as owner:
        for _ in range(5):
            await owner.ask(Client(b"x"))
        assert len(owner.accepted) == 1

        both = Client(b"x"), Client(b"x")
        await asyncio.gather(*map(owner.ask, both))
        assert len(owner.accepted) == 2
        assert owner.tunnels.count == 2


async def test_a_tunnel_ends_if_the_reply_comes_before_the_end_of_the_upload(tmp_path):
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await Reply(403, b"no")(scope, receive, send)

    client = Client(b"a part", is_complete=False)
    async with owner_of(tmp_path, refuse) as owner:
        await owner.ask(client)
        assert client.status == 403
        assert owner.tunnels.count == 0


async def test_an_idle_tunnel_that_its_owner_ends_is_forgotten(tmp_path):
    async with owner_of(tmp_path, created) as owner:
        await owner.ask(Client(b"x"))
        owner.kill()
        await until(lambda: owner.tunnels.count == 0)
        client = Client(b"x")
        await owner.ask(client)

    assert client.status == 201


async def test_a_server_may_report_the_end_of_a_body_twice_and_end_late(tmp_path):
    async with owner_of(tmp_path, created) as owner:
        for _ in range(5):
            client = Client(b"x")
            client.upload(b"", is_last=True)
            await owner.ask(client)
            client.leave()
            assert client.status == 201
        assert len(owner.accepted) == 1


async def test_as_many_requests_are_passed_on_as_there_may_be_tunnels(tmp_path):
    app = Held(begins=False)
    async with owner_of(tmp_path, app) as owner:
        asking = [asyncio.create_task(owner.ask(Client(b""))) for _ in range(50)]
        await until(lambda: owner.tunnels.count == 50)
        with pytest.raises(LimitReachedError):
            await owner.ask(Client(b""))
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)
        assert owner.tunnels.count == 0


# --- ends -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begins", [False, True])
async def test_the_owner_learns_that_the_client_has_gone(tmp_path, begins):
    app, client = Held(begins=begins), Client(b"")
    async with owner_of(tmp_path, app) as owner:
        asking = asyncio.create_task(owner.ask(client))
        await app.has_begun.wait()
        client.leave()
        await app.is_gone.wait()
        await asking

        assert owner.tunnels.count == 0
        assert not client.is_whole


async def test_the_owner_learns_that_the_door_has_ended(tmp_path):
    app, client = Held(begins=False), Client(b"")
    async with owner_of(tmp_path, app) as owner:
        asking = asyncio.create_task(owner.ask(client))
        await app.has_begun.wait()
        asking.cancel()
        await app.is_gone.wait()


@pytest.mark.parametrize(
    ("method", "path", "error"),
    [
        ("GET", "/topics/t", ShardAwayError),
        ("POST", "/topics/t/receive", ShardAwayError),
        ("POST", "/subscribe/t", ShardAwayError),
        ("POST", "/publish/t", OutcomeUnknownError),
        ("DELETE", "/t", OutcomeUnknownError),
    ],
)
async def test_an_owner_that_ends_before_its_reply_leaves_an_error(tmp_path, method, path, error):
    app = Held(begins=False)
    async with owner_of(tmp_path, app) as owner:
        asking = asyncio.create_task(owner.ask(Client(b""), scope_of(method, path)))
        await app.has_begun.wait()
        owner.kill()
        with pytest.raises(error):
            await asking


async def test_an_owner_that_ends_during_its_reply_leaves_it_without_an_end(tmp_path):
    app, client = Held(begins=True), Client(b"")
    async with owner_of(tmp_path, app) as owner:
        asking = asyncio.create_task(owner.ask(client))
        await client.wait_for(2)
        owner.kill()
        await asking

    assert client.body == b"part"
    assert not client.is_whole


async def test_requests_in_progress_end_when_their_owner_does_not_answer_any_more(tmp_path):
    app = Held(begins=False)
    async with owner_of(tmp_path, app) as owner:
        asking = asyncio.create_task(owner.ask(Client(b""), scope_of("GET", "/topics/t")))
        await app.has_begun.wait()
        owner.tunnels.fail(OWNER)
        with pytest.raises(ShardAwayError):
            await asking

        owner.is_away = True
        with pytest.raises(ShardAwayError, match="shard 1 does not answer"):
            await owner.ask(Client(b""))


async def test_an_owner_that_cannot_be_reached_is_away(tmp_path):
    async with owner_of(tmp_path, created) as owner:
        (tmp_path / "back").unlink()
        with pytest.raises(ShardAwayError):
            await owner.ask(Client(b""))


async def test_an_application_that_fails_is_an_internal_error_and_its_tunnel_goes_on(tmp_path):
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/bad":
            raise ValueError("a bug")
        await CREATED(scope, receive, send)

    client = Client(b"x")
    async with owner_of(tmp_path, fail) as owner:
        with structlog.testing.capture_logs() as logs, pytest.raises(InternalError):
            await owner.ask(Client(b"x"), scope_of("GET", "/bad"))
        await owner.ask(client)

    assert client.status == 201
    assert [line["event"] for line in logs] == ["a request of another shard has failed"]


# --- memory ---------------------------------------------------------------------------------------------------


async def test_a_request_is_charged_to_its_client_until_it_ends(tmp_path):
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        account = scope["state"][ACCOUNT_KEY]
        await read_body(receive, 1 << 30)
        seen.append((account.user, account.amounts()))
        await CREATED(scope, receive, send)

    async with owner_of(tmp_path, app, lambda _: ADA) as owner:
        await owner.ask(Client(b"x" * 1_000_000), user="ada")
        assert seen == [("ada", {Purpose.REQUESTS: serving.REQUEST_BYTES, Purpose.INPUT: 1_000_000})]
        assert owner.memory.connection_count(None) == 0
        assert owner.memory.used_bytes == 0


async def test_a_body_for_which_there_is_no_memory_is_refused(tmp_path):
    async with owner_of(tmp_path, created) as owner:
        owner.memory.set_limit(200_000, "-max-memory")
        client = Client(*[b"x" * 100_000] * 20)
        await owner.ask(client)

        assert client.status == 429
        assert b"LIMIT" in client.body
        assert owner.memory.used_bytes == 0
