"""Routes whose topics are in the body or in the query of a request.

    POST /transactions       all topics in one shard ─▶ its owner; otherwise CROSSSHARD, with the names
    GET /leases?topic=       the owner of the topic

A body without a topic that can be read is passed to the application of this process, which says what is wrong with it.
The server of this process charges what is read of bodies.

An act of a transaction that concerns a spread topic concerns one part of it, whose name the owner gets: that of its
keys, or of its receipts. An act with neither is for any part in the shard of the transaction. After the topic got more
parts, publishes that can be known in other parts are looked for there. So a transaction that is repeated is the one
that it was, or is refused.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.broker.model.limits import Limit, LimitCounts
from miniqueue.broker.transactions.acts import Way
from miniqueue.core.cursor.receipts import part_of_receipt
from miniqueue.core.message.parts import SEPARATOR, part_for
from miniqueue.core.options.publish import without_digest
from miniqueue.errors import InvalidTopicError, LimitReachedError, PayloadTooLargeError
from miniqueue.errors.requests import CrossShardError, SpreadTopicError
from miniqueue.server.asgi.request import parameters_of, read_body
from miniqueue.server.shards.http.door import Handler
from miniqueue.server.shards.http.owners import Owners, replaying
from miniqueue.server.shards.http.parts.asking import Parts, Spread
from miniqueue.server.shards.links.earlier import Published

#: Number of bytes of lines that are inspected in one event-loop iteration; how many bytes a line counts in addition.
TURN_BYTES: Final = 64 << 10
LINE_BYTES: Final = 640
_ACTS: Final = ("publish", *(way.value for way in Way))
_NAMES: Final = frozenset({"topic", *_ACTS})


def body_routes(
    owners: Owners,
    app: ASGIApp,
    counts: LimitCounts,
    parts: Parts,
    *,
    max_transaction_bytes: int,
) -> dict[tuple[str, str], Handler]:
    """Return the handlers by method and route.

    Args:
      owners: the owners of all shards.
      app: the application of this process.
      counts: counts how often the limit of transactions was reached.
      parts: the parts of spread topics.
      max_transaction_bytes: maximum size of the body of a transaction.
    """
    bodies = _Bodies(owners, app, counts, parts)
    return {
        ("POST", "/transactions"): partial(bodies.transaction, max_transaction_bytes),
        ("GET", "/leases"): bodies.leases,
    }


_turns = count()


class _Bodies:
    """Answers requests whose topics must be read first."""

    def __init__(self, owners: Owners, app: ASGIApp, counts: LimitCounts, parts: Parts) -> None:
        self._parts = parts
        self._owners = owners
        self._app = app
        self._counts = counts
        self._shard_of = owners.placing.shard_of

    async def leases(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the leases of the topic in the query, which its owner has."""
        topics = [value for name, value in parameters_of(scope) if name == "topic"]
        await self._serve({self._shard_of(topic) for topic in topics}, scope, receive, send)

    async def _serve(self, shards: set[int], scope: Scope, receive: Receive, send: Send) -> None:
        """Answer in the shard of all topics; without any, in this process."""
        own = self._owners.placing.number
        shard = next(iter(shards), own)
        if shard == own:
            await self._app(scope, receive, send)
        else:
            await self._owners.pass_on(shard, scope, receive, send)

    # --- transactions -----------------------------------------------------------------------------------------

    async def transaction(self, max_bytes: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry out a transaction in the shard of all its topics."""
        try:
            body = await read_body(receive, max_bytes)
        except PayloadTooLargeError as exc:
            self._counts.reached(Limit.TRANSACTION_BYTES)
            raise LimitReachedError(
                f"the body is too large; at most {max_bytes} bytes (-{Limit.TRANSACTION_BYTES})"
            ) from exc
        if body is None:
            return
        lines = _Lines(self._shard_of, self._parts)
        start, turn_bytes = 0, TURN_BYTES
        while start < len(body):
            end = body.find(b"\n", start)
            line = body[start : len(body) if end < 0 else end]
            start += len(line) + 1
            lines.add(line)
            turn_bytes -= len(line) + LINE_BYTES
            if turn_bytes < 0:
                turn_bytes = TURN_BYTES
                await asyncio.sleep(0)
        await lines.look()
        await self._serve(lines.shards(), scope, replaying(lines.body() or body, receive), send)


class _Act(NamedTuple):
    """An act on a spread topic.

    Attributes:
      line: the index of its line.
      name: the member that names the topic.
      members: the members of the line.
      topic: the topic.
    """

    line: int
    name: str
    members: dict[str, Any]
    topic: Spread


class _Lines:
    """The acts of a transaction, each with the topic, or the part, that it concerns.

    Args:
      shard_of: returns the shard with a topic.
      parts: the parts of spread topics.
    """

    def __init__(self, shard_of: Callable[[bytes], int], parts: Parts) -> None:
        self._shard_of = shard_of
        self._parts = parts
        self._first_topics: dict[int, bytes] = {}  # the first of each shard
        self._lines: list[bytes] = []
        self._is_changed = False
        self._free: list[_Act] = []  # those for any part
        self._doubtful: dict[bytes, list[tuple[_Act, Published]]] = {}  # those that other parts can know, by topic

    def add(self, line: bytes) -> None:
        """Add a line; raises SpreadTopicError for an act that concerns several parts, and InvalidTopicError."""
        members = _parsed(line)
        named = [(name, topic) for name in _ACTS if (topic := _text(members, name)) is not None]
        self._lines.append(line)
        if len(named) != 1:
            return  # the line is wrong
        [(name, topic)] = named
        check_whole(topic)
        if not (part_count := self._parts.spread_of(topic)):
            self._first_topics.setdefault(self._shard_of(topic), topic)
            return
        act = _Act(len(self._lines) - 1, name, members, Spread(topic, part_count))
        published = _published_by(members) if name == "publish" and self._parts.earlier_of(topic).counts else None
        if published is None:
            self._place(act)
        else:
            self._doubtful.setdefault(topic, []).append((act, published))

    async def look(self) -> None:
        """Find the places of publishes that can be known where they were before.

        Raises SpreadTopicError, or ShardAwayError.
        """
        for topic, acts in self._doubtful.items():
            whole, earlier = acts[0][0].topic, self._parts.earlier_of(topic)
            wholes = await self._parts.placed(whole, [published for _, published in acts])
            for (act, published), among in zip(acts, wholes, strict=True):
                if published.is_cut:
                    dedup_id = earlier.batch_id(published.dedup_id, among.part_count)
                    act.members["dedup"] = dedup_id.decode("utf-8", "surrogatepass")
                self._place(act._replace(topic=among))

    def _place(self, act: _Act) -> None:
        parts = _parts_of_act(act.members, act.topic.part_count)
        if len(parts) > 1:
            raise SpreadTopicError(act.topic.name, f"one {act.name}")
        if parts:
            self._set(act, parts.pop())
        else:
            self._free.append(act)

    def _set(self, act: _Act, number: int) -> None:
        part = act.topic.part(number)
        self._first_topics.setdefault(self._shard_of(part), act.topic.name)
        self._lines[act.line] = orjson.dumps({**act.members, act.name: part.decode()})
        self._is_changed = True

    def shards(self) -> set[int]:
        """Return the shard of all topics, or none; raises CrossShardError if there are several."""
        for act in self._free:
            numbers = act.topic.numbers
            beside = [number for number in numbers if self._shard_of(act.topic.part(number)) in self._first_topics]
            choice = beside or numbers
            self._set(act, choice[next(_turns) % len(choice)])
        if len(self._first_topics) > 1:
            raise CrossShardError(*dict.fromkeys(self._first_topics.values()))
        return set(self._first_topics)

    def body(self) -> bytes | None:
        """Return the body with the names of parts; None if it has stayed as it was."""
        return b"\n".join(self._lines) if self._is_changed else None


def _parts_of_act(members: dict[str, Any], part_count: int) -> set[int]:
    """Return the numbers of the parts that an act concerns; none if any part will do."""
    if isinstance(receipts := members.get("receipts"), list):
        return {part_of_receipt(str(receipt).encode()) % part_count for receipt in receipts}
    return {part_for(key, part_count) for key in _published(members).words if key}


def _published(members: dict[str, Any]) -> Published:
    """Return what decides the part of a publish, and by what it is recognized."""
    dedup_id, unique_key = _text(members, "dedup") or b"", _text(members, "unique") or b""
    own = without_digest(dedup_id)
    if isinstance(batch := members.get("batch"), list):
        keys = {_text(message, "key") or b"" for message in batch if isinstance(message, dict)} - {b""}
        return Published([*keys] or [own], dedup_id, is_cut=bool(keys))
    return Published([_text(members, "key") or unique_key or own], dedup_id, unique_key)


def _published_by(members: dict[str, Any]) -> Published | None:
    """Return the same for a publish that is recognized; None for one without an id."""
    published = _published(members)
    return published if published.dedup_id or published.unique_key else None


def check_whole(topic: bytes) -> None:
    """Raise InvalidTopicError for the name of a part, which no client can use."""
    if SEPARATOR in topic:
        raise InvalidTopicError


def _text(members: dict[str, Any], name: str) -> bytes | None:
    """Return a member that is a text; numbers are texts, too, as everywhere in options."""
    value = members.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool) and name not in _NAMES:
        return str(value).encode()
    return value.encode() if isinstance(value, str) else None


def _parsed(document: bytes) -> dict[str, Any]:
    """Return the members of a JSON object; none if it is something else."""
    try:
        members = orjson.loads(document)
    except orjson.JSONDecodeError:
        return {}
    return members if isinstance(members, dict) else {}
