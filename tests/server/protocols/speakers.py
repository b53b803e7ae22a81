"""Clients of both protocols that ask and hear the same, without sockets, so that one test is run with each.

    speaker.peek("t", state="delayed")      RESP: PEEK t state delayed    HTTP: GET /topics/t/messages?state=delayed
    [{"id": …, "msg": b"a", "due_at_ms": …}]                                    dueAtMs, and the payload in Base64

What only one protocol has is tested in tests/server/resp or tests/server/http.
"""

import asyncio
import base64
import re
from typing import Any
from urllib.parse import quote, urlencode

import hiredis
import orjson

from miniqueue.server.asgi.request import ACCOUNT_KEY
from miniqueue.server.http.app import HttpApp
from miniqueue.server.resp.server import RespServer
from miniqueue.server.security.authentication import Authenticator
from tests.broker.support import World
from tests.fakes import settle_down
from tests.model.protocols import RespWire
from tests.server.access import token_of
from tests.server.resp.clients import PARAMETERS

Reply = dict[str, Any]


_SECONDS = {"dack": "delay", "extend": "lease"}


class RefusedError(Exception):
    """A refusal, as `CODE text`."""


class RespSpeaker:
    """Speaks RESP."""

    def __init__(self, world: World, sign_in: Authenticator | None = None) -> None:
        self._wire = RespWire(RespServer(world.broker, PARAMETERS, sign_in))

    async def become(self, user: str) -> None:
        assert await self.ask(f"AUTH {user}", token_of(user)) == b"OK"

    def leave(self) -> None:
        self._wire.connection.connection_lost(None)

    async def ask(self, line: str, *words: bytes, **options: object) -> Any:
        """Send the words of a line, more words, and options as names and values; return the reply."""
        pairs = [str(word).encode() for pair in options.items() for word in pair]
        self._wire.send([*line.encode().split(), *words, *pairs])
        await settle_down()
        (reply,) = self._wire.replies()
        if isinstance(reply, hiredis.ReplyError):
            raise RefusedError(str(reply))
        return reply

    #: What errors call the parts of a transaction.
    NOUN = "command"

    def words_to_pause(self, topic: str) -> tuple[str, ...]:
        return (f"PAUSE {topic} IN",)

    async def transact(self, *acts: tuple[str, str, Any, Reply], sync: bool = False) -> list[Any]:
        """Carry out a transaction of acts: what is done, the topic, a payload or receipts, and options."""
        self._wire.send([b"MULTI"])
        for act, topic, content, options in acts:
            if act == "publish":
                words = _option_words(options)
                self._wire.send([b"PUB" if words else b"PUBLISH", topic.encode(), content, *words])
            else:
                pairs = [name.upper() if act == "nack" else "" for name in options]
                values = [
                    str(word).encode() for pair in zip(pairs, options.values(), strict=True) for word in pair if word
                ]
                self._wire.send([act.encode(), topic.encode(), *map(str.encode, content), *[b"SYNC"] * sync, *values])
        self._wire.send([b"EXEC"])
        await settle_down()
        *queued, reply = self._wire.replies()
        for refusal in queued:
            if isinstance(refusal, hiredis.ReplyError):
                raise RefusedError(str(refusal))
        if isinstance(reply, hiredis.ReplyError):
            raise RefusedError(str(reply))
        return [_result(*pair) for pair in zip(acts, reply, strict=True)]

    async def create(self, topic: str, **settings: object) -> None:
        words = {name: str(value).lower() for name, value in settings.items()}
        assert await self.ask(f"TOPIC CREATE {topic}", **words) == b"OK"

    async def settings(self, topic: str) -> Reply:
        return _named(await self.ask(f"TOPIC GET {topic}"))

    async def publish(self, topic: str, payload: bytes, **options: object) -> str:
        reply = await self.ask(f"PUB {topic}", payload, *_option_words(options))
        return (reply[0] if isinstance(reply, list) else reply).decode()

    async def receive(self, topic: str, **options: object) -> list[Reply]:
        autoack = [b"AUTOACK"] if options.pop("autoack", False) else []
        received = await self.ask(f"RECEIVE {topic}", *autoack, **options)
        return [{"receipt": receipt.decode(), "msg": payload, **_named(rest)} for receipt, payload, rest in received]

    async def settle(
        self, act: str, topic: str, *receipts: str, more: str = "", sync: bool = False, **body: object
    ) -> list[str]:
        value = " ".join(map(str, body.values()))
        reply = await self.ask(f"{act} {topic} {' '.join(receipts)} {'SYNC' * sync} {value} {more}")
        return [str(each if isinstance(each, str) else each.decode()) for each in _listed(reply)]

    async def nack(self, topic: str, receipt: str, **options: object) -> list[str]:
        words = [str(word).encode() for pair in options.items() for word in pair]
        return _listed(await self.ask(f"NACK {topic} {receipt}", *words))

    async def peek(self, topic: str, **options: object) -> list[Reply]:
        return [_message(*each) for each in await self.ask(f"PEEK {topic}", **options)]

    async def show(self, topic: str, message_id: str) -> Reply:
        return _message(*await self.ask(f"PEEK {topic} ID {message_id}"))

    async def search(self, topic: str, **options: object) -> Reply:
        page = _named(await self.ask(f"SEARCH {topic}", **options))
        following = None if page["next"] is None else str(page["next"])
        return page | {"messages": [_message(*each) for each in page["messages"]], "next": following}

    async def act(self, act: str, topic: str, message_id: str, **options: object) -> str:
        return (await self.ask(f"MESSAGE {act} {topic} {message_id}", **options)).decode()

    async def act_on(self, act: str, topic: str, **options: object) -> int | str:
        words = [word for name, word in (("dry_run", b"DRYRUN"), ("task", b"TASK")) if options.pop(name, False)]
        pairs = [str(word).encode() for pair in options.items() for word in pair]
        reply = await self.ask(f"MESSAGES {act} {topic}", *pairs, *words)
        return reply.decode() if isinstance(reply, bytes) else reply

    async def task(self, task_id: str) -> Reply:
        return _named(await self.ask(f"TASK GET {task_id}"))

    async def tasks(self) -> list[Reply]:
        return [_named(each) for each in await self.ask("TASK LIST")]

    async def cancel_task(self, task_id: str) -> None:
        assert await self.ask(f"TASK CANCEL {task_id}") == b"OK"

    async def cancel(self, topic: str, message_id: str) -> None:
        assert await self.ask(f"CANCEL {topic} {message_id}") == b"OK"

    async def purge(self, topic: str, **options: object) -> int:
        return await self.ask(f"PURGE {topic}", **options)

    async def figures(self, topic: str) -> Reply:
        return _named(await self.ask(f"STATS {topic}"))

    async def create_group(self, topic: str, group: str, **options: object) -> None:
        start = {"FROM": start} if (start := options.pop("start", None)) else {}
        ephemeral = "EPHEMERAL" if options.pop("ephemeral", False) else ""
        assert await self.ask(f"GROUP CREATE {topic} {group} {ephemeral}", **start, **options) == b"OK"

    async def pause_group(self, topic: str, group: str, seconds: float | None = None) -> None:
        assert await self.ask(f"PAUSE {topic} {'' if seconds is None else seconds} GROUP {group}") == b"OK"

    async def resume_group(self, topic: str, group: str) -> None:
        assert await self.ask(f"RESUME {topic} OUT GROUP {group}") == b"OK"

    async def groups(self, topic: str) -> dict[str, Reply]:
        return {(shown := _named(each))["name"]: shown for each in await self.ask(f"GROUP LIST {topic}")}

    async def seek(self, topic: str, group: str, to: str, *, dry_run: bool = False) -> Reply:
        return _named(await self.ask(f"GROUP SEEK {topic} {group} {to} {'DRYRUN' * dry_run}"))

    async def delete_group(self, topic: str, group: str) -> None:
        assert await self.ask(f"GROUP DELETE {topic} {group}") == b"OK"

    async def pause(self, topic: str, side: str, seconds: float) -> None:
        assert await self.ask(f"PAUSE {topic} {side} {seconds}") == b"OK"

    async def resume(self, topic: str) -> None:
        assert await self.ask(f"RESUME {topic}") == b"OK"

    async def read(self, topic: str, partition: int, **options: object) -> Reply:
        start = f"TIME {options.pop('time')}" if "time" in options else options.pop("offset", 0)
        page = _named(await self.ask(f"READ {topic} {partition} {start}", **options))
        return page | {"messages": [_message(*each) for each in page["messages"]]}

    async def partitions(self, topic: str) -> list[Reply]:
        return [_named(each) for each in await self.ask(f"PARTITIONS {topic}")]

    async def leases(self, topic: str, group: str, **options: object) -> list[Reply]:
        return [_named(each) for each in await self.ask(f"LEASES {topic} GROUP {group}", **options)]

    async def holders(self, topic: str, group: str) -> list[Reply]:
        return [_named(each) for each in await self.ask(f"GROUP HOLDERS {topic} {group}")]

    async def usage(self) -> list[Reply]:
        return [
            {name: _paired(value) if isinstance(value, list) else value for name, value in _named(each).items()}
            for each in await self.ask("USAGE")
        ]


def _result(act: tuple[str, str, Any, Reply], reply: Any) -> Any:
    """Return an id, with `again` for a duplicate, or the words of a settle; of a PUBLISH over RESP, OK."""
    if act[0] != "publish":
        return [word.decode() for word in (reply if isinstance(reply, list) else [reply])]
    if not isinstance(reply, list):
        return reply.decode()
    return f"{reply[0].decode()}{' again' if reply[1] else ''}"


def _option_words(options: Reply) -> list[bytes]:
    """Return options as names and values; one that is True is a name alone."""
    pairs = [(name,) if value is True else (name, value) for name, value in options.items()]
    return [str(word).encode() for pair in pairs for word in pair]


class HttpSpeaker:
    """Speaks HTTP, to the application itself."""

    def __init__(self, world: World, sign_in: Authenticator | None = None) -> None:
        self._app = HttpApp(world.broker, sign_in)
        self._account = world.broker.memory.connect("192.0.2.1")
        self._headers: list[tuple[bytes, bytes]] = []
        self.reply_headers: Reply = {}

    async def become(self, user: str) -> None:
        self._headers = [(b"authorization", b"Bearer " + token_of(user))]
        await self.ask("GET", "/topics")

    def leave(self) -> None:
        self._account.close()

    async def ask(self, method: str, path: str, body: object = b"", **options: object) -> tuple[Reply, bytes]:
        """Make a request with options in its query; return the headers and the body of the reply."""
        content, sent = body if isinstance(body, bytes) else orjson.dumps(body), []

        bodies = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> Reply:
            return bodies.pop() if bodies else await asyncio.get_running_loop().create_future()

        async def send(message: Reply) -> None:
            sent.append(message)

        path, _, query = path.partition("?")
        query = query or urlencode({name: _plain(value) for name, value in options.items()})
        scope = {"type": "http", "method": method, "path": path, "raw_path": quote(path, "/%").encode()}
        scope |= {"headers": self._headers, "state": {ACCOUNT_KEY: self._account}}
        asking = asyncio.create_task(self._app(scope | {"query_string": query.encode()}, receive, send))
        await settle_down()
        await asking
        reply = b"".join(message.get("body", b"") for message in sent)
        self.reply_headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        if sent[0]["status"] >= 400:
            refusal = orjson.loads(reply)
            raise RefusedError(f"{refusal['code']} {refusal['error']}")
        return self.reply_headers, reply

    NOUN = "act"

    def words_to_pause(self, topic: str) -> tuple[str, ...]:
        return ("POST", f"/topics/{topic}/pause?side=in")

    async def transact(self, *acts: tuple[str, str, Any, Reply], sync: bool = False) -> list[Any]:
        """Carry out a transaction of acts: what is done, the topic, a payload or receipts, and options."""
        lines, query = [], {"sync": True} if sync else {}
        for act, topic, content, options in acts:
            names = {"delay": "delaySeconds"} if act == "nack" else {"seconds": f"{_SECONDS.get(act)}Seconds"}
            members = {names.get(name, name): value for name, value in options.items()}
            is_publish = act == "publish"
            what = {"msg": base64.b64encode(content).decode()} if is_publish else {"receipts": content}
            lines.append(orjson.dumps({act: topic, **what, **members}))
        _, reply = await self.ask("POST", "/transactions", b"\n".join(lines), **query)
        results = list(map(orjson.loads, reply.splitlines()))
        return [
            f"{one['id']}{' again' if 'duplicate' in one else ''}" if isinstance(one, dict) else one for one in results
        ]

    async def _json(self, method: str, path: str, body: object = b"", **options: object) -> Any:
        return _snake(orjson.loads((await self.ask(method, path, body, **options))[1]))

    async def create(self, topic: str, **settings: object) -> None:
        await self.ask("PUT", f"/topics/{topic}", settings)

    async def settings(self, topic: str) -> Reply:
        return (await self._json("GET", f"/topics/{topic}"))["settings"]

    async def publish(self, topic: str, payload: bytes, **options: object) -> str:
        return (await self.ask("POST", f"/publish/{topic}", payload, **options))[0].get("message-id", "")

    async def receive(self, topic: str, **options: object) -> list[Reply]:
        _, lines = await self.ask("POST", f"/topics/{topic}/receive", **options)
        return [_snake(orjson.loads(line)) for line in lines.splitlines()]

    async def settle(self, act: str, topic: str, *receipts: str, sync: bool = False, **body: object) -> list[str]:
        query = {"sync": True} if sync else {}
        return await self._json("POST", f"/topics/{topic}/{act.lower()}", {"receipts": receipts, **body}, **query)

    async def nack(self, topic: str, receipt: str, **options: object) -> list[str]:
        members = {"delaySeconds" if name == "delay" else name: value for name, value in options.items()}
        return await self._json("POST", f"/topics/{topic}/nack", {"receipts": [receipt], **members})

    async def peek(self, topic: str, **options: object) -> list[Reply]:
        return (await self._json("GET", f"/topics/{topic}/messages", **options))["messages"]

    async def show(self, topic: str, message_id: str) -> Reply:
        return await self._json("GET", f"/topics/{topic}/messages/{message_id}")

    async def search(self, topic: str, **options: object) -> Reply:
        return await self._json("GET", f"/topics/{topic}/search", **options)

    async def act(self, act: str, topic: str, message_id: str, **options: object) -> str:
        path = f"/topics/{topic}/messages/{message_id}"
        if act == "delete":
            return (await self._json("DELETE", path, **options))["deleted"]
        return (await self._json("POST", f"{path}/{act}", **options))["id"]

    async def act_on(self, act: str, topic: str, **options: object) -> int | str:
        reply = await self._json("POST", f"/topics/{topic}/messages/{act}", **options)
        return reply.get("task", reply.get("count"))

    async def task(self, task_id: str) -> Reply:
        return await self._json("GET", f"/tasks/{task_id}")

    async def tasks(self) -> list[Reply]:
        return (await self._json("GET", "/tasks"))["tasks"]

    async def cancel_task(self, task_id: str) -> None:
        assert await self._json("DELETE", f"/tasks/{task_id}") == {"cancelled": task_id}

    async def cancel(self, topic: str, message_id: str) -> None:
        cancelled = await self._json("DELETE", f"/topics/{topic}/messages/{message_id}")
        assert cancelled == {"cancelled": message_id}

    async def purge(self, topic: str, **options: object) -> int:
        return (await self._json("POST", f"/topics/{topic}/purge", **options))["removed"]

    async def figures(self, topic: str) -> Reply:
        return await self._json("GET", f"/topics/{topic}")

    async def create_group(self, topic: str, group: str, **options: object) -> None:
        start = {"from": start} if (start := options.pop("start", None)) else {}
        await self.ask("PUT", f"/topics/{topic}/groups/{group}", **start, **options)

    async def pause_group(self, topic: str, group: str, seconds: float | None = None) -> None:
        options = {} if seconds is None else {"seconds": seconds}
        await self.ask("POST", f"/topics/{topic}/groups/{group}/pause", **options)

    async def resume_group(self, topic: str, group: str) -> None:
        await self.ask("POST", f"/topics/{topic}/groups/{group}/resume")

    async def groups(self, topic: str) -> dict[str, Reply]:
        return {group["name"]: group for group in (await self._json("GET", f"/topics/{topic}/groups"))["groups"]}

    async def seek(self, topic: str, group: str, to: str, *, dry_run: bool = False) -> Reply:
        return await self._json("POST", f"/topics/{topic}/groups/{group}/seek", to=to, dry_run=dry_run)

    async def delete_group(self, topic: str, group: str) -> None:
        await self.ask("DELETE", f"/topics/{topic}/groups/{group}")

    async def pause(self, topic: str, side: str, seconds: float) -> None:
        await self.ask("POST", f"/topics/{topic}/pause", side=side, seconds=seconds)

    async def resume(self, topic: str) -> None:
        await self.ask("POST", f"/topics/{topic}/resume")

    async def read(self, topic: str, partition: int, **options: object) -> Reply:
        page = await self._json("GET", f"/topics/{topic}/partitions/{partition}", **options)
        del page["partition"]
        return page

    async def partitions(self, topic: str) -> list[Reply]:
        return (await self._json("GET", f"/topics/{topic}/partitions"))["partitions"]

    async def leases(self, topic: str, group: str, **options: object) -> list[Reply]:
        return (await self._json("GET", "/leases", topic=topic, group=group, **options))["leases"]

    async def holders(self, topic: str, group: str) -> list[Reply]:
        return (await self._json("GET", f"/topics/{topic}/groups/{group}/holders"))["holders"]

    async def usage(self) -> list[Reply]:
        return (await self._json("GET", "/usage"))["usage"]


Speaker = RespSpeaker | HttpSpeaker


# --- what RESP says -------------------------------------------------------------------------------------------


def _named(words: list[Any]) -> Reply:
    """Return names and values as a dict; the values are text and numbers."""
    return {name.decode(): _text(value) for name, value in zip(words[::2], words[1::2], strict=True)}


def _paired(words: list[Any]) -> Reply:
    return dict(zip(words[::2], words[1::2], strict=True))


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(each) for each in value]
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _message(message_id: bytes | str, payload: bytes | str, rest: list[Any]) -> Reply:
    payload = payload if isinstance(payload, bytes) else payload.encode()
    known = [word if isinstance(word, bytes | int | list) else word.encode() for word in rest]
    return {"id": _text(message_id), "msg": payload, **_named(known)}


def _listed(reply: Any) -> list[Any]:
    return reply if isinstance(reply, list) else [reply]


# --- what HTTP says -------------------------------------------------------------------------------------------


def _snake(value: Any) -> Any:
    """Return JSON with the names of RESP, and payloads as bytes."""
    if isinstance(value, list):
        return [_snake(each) for each in value]
    if not isinstance(value, dict):
        return value
    named = {re.sub("(?<=[a-z])[A-Z]", lambda found: f"_{found[0].lower()}", name): value[name] for name in value}
    return {name: base64.b64decode(each) if name == "msg" else _snake(each) for name, each in named.items()}


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
