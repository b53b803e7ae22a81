"""Routes whose topics are in the body or in the query of a request.

    PUT /schedules/{name}    the topic in the body ─▶ its owner; then a schedule of this name elsewhere is deleted
    POST /transactions       all topics in one shard ─▶ its owner; otherwise CROSSSHARD, with the names
    GET /leases?topic=       the owner of the topic

A body without a topic that can be read is passed to the application of this process, which says what is wrong with it.
The server of this process charges what is read of bodies.
"""

import asyncio
from functools import partial
from typing import Any, Final

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.access.rights import Right
from miniqueue.access.users import check_permitted
from miniqueue.broker.model.limits import Limit, LimitCounts
from miniqueue.broker.transactions.acts import Way
from miniqueue.errors import InvalidLineError, LimitReachedError, PayloadTooLargeError
from miniqueue.errors.requests import CrossShardError
from miniqueue.server.asgi.request import parameters_of, read_body
from miniqueue.server.shards.http.door import Handler
from miniqueue.server.shards.http.owners import Answer, Gathering, Owners, replaying

#: Number of bytes of lines that are inspected in one event-loop iteration; how many bytes a line counts in addition.
TURN_BYTES: Final = 64 << 10
LINE_BYTES: Final = 640
_ACTS: Final = ("publish", *(way.value for way in Way))
_CREATED: Final = 201
_NOT_FOUND: Final = 404
_OF_BODIES: Final = frozenset({b"content-length", b"content-type", b"transfer-encoding", b"expect"})


def body_routes(
    owners: Owners, app: ASGIApp, counts: LimitCounts, *, max_schedule_bytes: int, max_transaction_bytes: int
) -> dict[tuple[str, str], Handler]:
    """Return the handlers by method and route.

    Args:
      owners: the owners of all shards.
      app: the application of this process.
      counts: counts how often the limit of transactions was reached.
      max_schedule_bytes: maximum size of the body of a schedule.
      max_transaction_bytes: maximum size of the body of a transaction.
    """
    bodies = _Bodies(owners, app, counts)
    return {
        ("PUT", "/schedules/{name}"): partial(bodies.schedule, max_schedule_bytes),
        ("POST", "/transactions"): partial(bodies.transaction, max_transaction_bytes),
        ("GET", "/leases"): bodies.leases,
    }


class _Bodies:
    """Answers requests whose topics must be read first."""

    def __init__(self, owners: Owners, app: ASGIApp, counts: LimitCounts) -> None:
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
        first_topics: dict[int, bytes] = {}
        start, turn_bytes = 0, TURN_BYTES
        while start < len(body):
            end = body.find(b"\n", start)
            line = body[start : len(body) if end < 0 else end]
            start += len(line) + 1
            if (topic := _topic_of_act(line)) is not None:
                first_topics.setdefault(self._shard_of(topic), topic)
            turn_bytes -= len(line) + LINE_BYTES
            if turn_bytes < 0:
                turn_bytes = TURN_BYTES
                await asyncio.sleep(0)
        if len(first_topics) > 1:
            raise CrossShardError(*first_topics.values())
        await self._serve(set(first_topics), scope, replaying(body, receive), send)

    # --- schedules --------------------------------------------------------------------------------------------

    async def schedule(self, max_bytes: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Set a schedule in the shard of its topic, then delete one with its name in the others.

        If a process ends in between, there are two, and none is lost; the client can repeat the request.
        """
        check_permitted(scope.get("user"), Right.ADMIN, None, "PUT /schedules/{name}")
        try:
            body = await read_body(receive, max_bytes)
        except PayloadTooLargeError as exc:
            raise InvalidLineError(f"body too large; must be at most {max_bytes} bytes") from exc
        if body is None:
            return
        topic = _topic_of_schedule(body)
        if topic is None:
            await self._app(scope, replaying(body, receive), send)
            return
        self._owners.check_all()
        with self._owners.gathering(scope) as gathering:
            answer = await self._set(self._shard_of(topic), scope, body, gathering)
            await answer.reply()(scope, receive, send)

    async def _set(self, shard: int, scope: Scope, body: bytes, gathering: Gathering) -> Answer:
        answer = await self._owners.ask(shard, scope, gathering, body)
        if answer.is_error:
            return answer
        headers = [(name, value) for name, value in scope["headers"] if name not in _OF_BODIES]
        delete = {**scope, "method": "DELETE", "headers": headers}
        for other in self._owners.numbers:
            if other == shard:
                continue
            deleted = await self._owners.ask(other, delete, gathering)
            if deleted.is_error and deleted.status != _NOT_FOUND:
                return deleted
            if not deleted.is_error and answer.status == _CREATED:
                answer = answer._replace(status=200)
        return answer


def _topic_of_act(line: bytes) -> bytes | None:
    """Return the topic of an act of a transaction; None if the line is wrong."""
    members = _parsed(line)
    topics = [members[name] for name in _ACTS if name in members]
    return topics[0].encode() if len(topics) == 1 and isinstance(topics[0], str) else None


def _topic_of_schedule(body: bytes) -> bytes | None:
    topic = _parsed(body).get("topic")
    return topic.encode() if isinstance(topic, str) else None


def _parsed(document: bytes) -> dict[str, Any]:
    """Return the members of a JSON object; none if it is something else."""
    try:
        members = orjson.loads(document)
    except orjson.JSONDecodeError:
        return {}
    return members if isinstance(members, dict) else {}
