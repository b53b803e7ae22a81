"""JSON lines that are published to a spread topic: each line to its part, and the answers in the order of the lines.

    one ─ {"msg":…,"key":"a"} ─▶ part 3 ─▶ {"id":"3072-0"} ─┐
    two ─ "text"              ─▶ part 1 ─▶ {"id":"1024-7"} ─┼─▶ answers one, two, three
    three ─ {…,"key":"a"}     ─▶ part 3 ─▶ {"id":"3072-1"} ─┘

There is one request to each part that gets a line, which lasts as long as that of the client. Lines without a key that
arrive together go to the same part. What is wrong with a line is said by the part that gets it.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from functools import partial
from itertools import groupby, repeat
from typing import Final

import orjson
from starlette.types import Receive, Scope, Send

from miniqueue.core.message.parts import part_for
from miniqueue.core.options.publish import NO_OPTIONS, PublishOptions, parse_members
from miniqueue.errors import DrainingError, MiniqueueError, RequestError
from miniqueue.errors.requests import OutcomeUnknownError
from miniqueue.server.asgi.replies import begin_json_lines
from miniqueue.server.shards.http.parts.asking import Parts, Spread
from miniqueue.server.shards.http.parts.lasting import LastingRequest
from miniqueue.server.shards.http.tunnel import AWAY
from miniqueue.server.shards.links.earlier import published_with
from miniqueue.wire.json_lines import encode_error, max_line_bytes

#: Maximum number of pieces of the body whose lines are not answered yet.
MAX_UNANSWERED: Final = 64
#: The memory of a request to a part, with what waits, about; it is charged twice, as all that is gathered.
REQUEST_BYTES: Final = 32 << 10
_BLANKS: Final = b" \t\r\n"
_NAMES: Final = ("key", "dedup", "unique")
#: If lines contain none of these, none has a key: the letters of a name can only be written in these two ways.
_SIGNS_OF_KEYS: Final = (b'"key"', b'"dedup"', b'"unique"', b"\\u")


async def publish_lines(parts: Parts, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
    """Publish the lines of a request, and answer each; raises MiniqueueError if nothing was published."""
    with parts.owners.gathering(scope) as gathering:
        gathering.add(REQUEST_BYTES * topic.part_count)
        await _Lines(parts, topic, scope).run(receive, send)


class _Answers:
    """The answers of one part to its lines."""

    def __init__(self, request: LastingRequest) -> None:
        self.request = request
        self._lines: deque[bytes] = deque()
        self._rest = b""

    @property
    def is_there(self) -> bool:
        """Whether there is an answer to the next line."""
        return bool(self._lines)

    async def take(self, count: int) -> list[bytes]:
        """Return the answers to the next lines, at least one, and at most `count`."""
        while not self._lines:
            if await self.request.refusal() is not None or not (came := await self.request.read()):
                return [await self._failure()] * count
            *lines, self._rest = (self._rest + came).split(b"\n")
            self._lines.extend(lines)
        return [self._lines.popleft() + b"\n" for _ in range(min(count, len(self._lines)))]

    async def _failure(self) -> bytes:
        """Return the answer to a line that the part has not answered."""
        refusal = await self.request.refusal()
        if refusal is not None:
            return refusal.body + b"\n"
        if self.request.error is not None:
            return encode_error(self.request.error)
        if self.request.is_whole:  # the process stops: it has read no more
            return encode_error(DrainingError())
        return encode_error(OutcomeUnknownError(AWAY.format("whether the message was published is unknown")))


class _Refusal:
    """The answers to lines that no part has got, since it is not known which one it is."""

    is_there = True

    def __init__(self, error: MiniqueueError) -> None:
        self._line = encode_error(error)

    async def take(self, count: int) -> list[bytes]:
        """Return the answers to the next lines."""
        return [self._line] * count


#: Which answers are those to how many lines.
_Runs = list[tuple[_Answers | _Refusal, int]]


class _Lines:
    """The lines of one request."""

    def __init__(self, parts: Parts, topic: Spread, scope: Scope) -> None:
        self._parts = parts
        self._topic = topic
        self._scope = scope
        self._max_line_bytes = max_line_bytes(parts.max_message_bytes)
        self._open: dict[int, _Answers] = {}
        self._all: list[LastingRequest] = []
        self._runs: asyncio.Queue[_Runs | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(MAX_UNANSWERED)
        self._rest = b""
        self._long: int | None = None  # the part that gets the rest of a line that is too long to be kept
        self._reader: asyncio.Task[None] | None = None

    async def run(self, receive: Receive, send: Send) -> None:
        """Publish every line and answer each, in order, until the client, or the end of a process, ends the request."""
        first = self._answers_of(self._parts.choose(self._topic, 0))
        try:
            refusal = await first.request.begun()
            if refusal is not None:
                await refusal.reply()(self._scope, receive, send)
                return
            self._reader = asyncio.create_task(self._read(receive))
            self._reader.add_done_callback(lambda _: self._runs.put_nowait(None))
            await self._write(send)
        finally:
            if self._reader is not None:
                self._reader.cancel()
                await asyncio.gather(self._reader, return_exceptions=True)
            await asyncio.gather(*(request.close() for request in self._all))

    def _answers_of(self, number: int) -> _Answers:
        """Return the answers of a part, to which a request is begun unless there is one."""
        answers = self._open.get(number)
        if answers is None or answers.request.is_over:
            pass_on = partial(self._parts.pass_on, self._topic, number, self._scope)
            answers = self._open[number] = _Answers(LastingRequest(pass_on, self._end_with))
            self._all.append(answers.request)
        return answers

    def _end_with(self, request: LastingRequest) -> None:
        """Read no more if a part has read no more, as its process stops."""
        if request.is_whole and self._reader is not None:
            self._reader.cancel()

    # --- reading ----------------------------------------------------------------------------------------------

    async def _read(self, receive: Receive) -> None:
        more_body = True
        while more_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                break  # the rest may be an incomplete line
            more_body = message.get("more_body", False)
            await self._take(message.get("body", b""))
        if not more_body and (self._rest or self._long is not None):
            await self._take(b"\n")
        for answers in self._open.values():
            answers.request.end_feed()

    async def _take(self, piece: bytes) -> None:
        """Pass the lines that a piece completes on to their parts."""
        await self._room.acquire()
        runs: _Runs = []
        if self._long is not None:
            piece = await self._take_long(self._long, piece, runs)
        end = piece.rfind(b"\n") + 1
        whole, self._rest = (self._rest + piece[:end], piece[end:]) if end else (b"", self._rest + piece)
        if whole:
            runs += await self._feed(whole)
        if len(self._rest) > self._max_line_bytes:
            self._long, rest, self._rest = self._parts.choose(self._topic, 0), self._rest, b""
            await self._answers_of(self._long).request.feed(rest)
        self._runs.put_nowait(runs)

    async def _take_long(self, number: int, piece: bytes, runs: _Runs) -> bytes:
        """Pass on what belongs to a line that is too long; return the rest of the piece."""
        of_line, end, rest = piece.partition(b"\n")
        answers = self._answers_of(number)
        await answers.request.feed(of_line + end)
        if end:
            self._long = None
            runs.append((answers, 1))
        return rest

    async def _feed(self, whole: bytes) -> _Runs:
        """Send whole lines to their parts; return which part answers how many of them, in their order."""
        lines = [line for line in whole.split(b"\n") if line.strip(_BLANKS)]
        try:
            numbers = await self._numbers_of(whole, lines)
        except MiniqueueError as exc:
            return [(_Refusal(exc), len(lines))]
        by_part: dict[int, list[bytes]] = {}
        for number, line in zip(numbers, lines, strict=True):
            by_part.setdefault(number, []).append(line)
        for number, own in by_part.items():
            await self._answers_of(number).request.feed(b"\n".join([*own, b""]))
        return [(self._open[number], len(list(run))) for number, run in groupby(numbers)]

    async def _numbers_of(self, whole: bytes, lines: list[bytes]) -> list[int]:
        """Return the number of the part of each line; raises ShardAwayError."""
        if not any(sign in whole for sign in _SIGNS_OF_KEYS):
            return [*repeat(self._parts.choose(self._topic, len(lines)), len(lines))]
        options = [*_options_of(lines)]
        keys = [each.placing_key for each in options]
        of_no_key = self._parts.choose(self._topic, keys.count(b""))
        placed = await self._parts.placed(self._topic, [*map(published_with, options)])
        return [part_for(key, topic.part_count) if key else of_no_key for key, topic in zip(keys, placed, strict=True)]

    # --- writing ----------------------------------------------------------------------------------------------

    async def _write(self, send: Send) -> None:
        await begin_json_lines(send)
        while (runs := await self._runs.get()) is not None:
            lines: list[bytes] = []
            for answers, count in runs:
                left = count
                while left > 0:
                    if lines and not answers.is_there:
                        await send({"type": "http.response.body", "body": b"".join(lines), "more_body": True})
                        lines.clear()
                    taken = await answers.take(left)
                    lines += taken
                    left -= len(taken)
            if lines:
                await send({"type": "http.response.body", "body": b"".join(lines), "more_body": True})
            self._room.release()
        await send({"type": "http.response.body", "body": b""})


def _options_of(lines: Iterable[bytes]) -> Iterable[PublishOptions]:
    """Yield what decides the part of each line: its key, unique key, and dedup id; none of an invalid line."""
    for line in lines:
        try:
            members = orjson.loads(line)
            named = {name: members[name] for name in _NAMES if name in members} if isinstance(members, dict) else {}
            options = parse_members(named)
        except (orjson.JSONDecodeError, RequestError):
            yield NO_OPTIONS
        else:
            yield options
