"""`POST /subscribe/{topic}` of a spread topic: the streams of all parts, each over a tunnel of its own, as one stream.

    ?prefetch=100 ─▶ each of 8 parts: ?prefetch=12 or 13
    part ─▶ a message ─▶ the client, unless it has as many as it wants (`window`)
    "ACK 17 …" ─▶ the parts that the receipts contain, each its own ─▶ answers ─▶ one error, if there is any

Without a prefetch, the client names no receipts: it has one message, and this module knows its receipt. A command waits
then until the one before it is answered.

If the stream of a part ends, so does that of the client: the others return what they hold. So it does if the topic
gets other parts, or is deleted, once the parts have answered what the client has sent: it subscribes again.
"""

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import repeat
from operator import mod
from typing import Any, Final
from urllib.parse import urlencode

import orjson
from starlette.types import Receive, Scope, Send

from miniqueue.core.cursor.receipts import parse_receipts, part_of_receipt, parts_of_receipts
from miniqueue.core.message.partitioning import indexes_by_run
from miniqueue.core.options.consume import StreamOptions, parse_stream_options
from miniqueue.errors import (
    MessageOutstandingError,
    MiniqueueError,
    NothingOutstandingError,
    UnknownReceiptError,
)
from miniqueue.server.asgi.replies import begin_json_lines
from miniqueue.server.asgi.request import query_of
from miniqueue.server.shards.http.owners import together
from miniqueue.server.shards.http.parts.asking import Parts, Spread
from miniqueue.server.shards.http.parts.lasting import LastingRequest
from miniqueue.server.shards.http.receiving import UseGroup
from miniqueue.server.shards.links.window import Window, shares
from miniqueue.wire.json_lines import ANSWER_START, CommandDecoder, encode_error

#: From this size on, what the client has not read yet keeps the parts waiting.
MAX_UNSENT_BYTES: Final = 256 << 10
#: Maximum number of unread lines of errors; the stream of a client that causes more ends.
MAX_UNSENT_LINES: Final = 1024
#: The memory of the stream of a part, with what waits, about; it is charged twice, as all that is gathered.
STREAM_BYTES: Final = 32 << 10
_OPTIONS: Final = ("prefetch", "group", "member", "session", "lease")
_START: Final = len(b'{"receipt":"')
_UNKNOWN_RECEIPTS: Final = re.compile(r"(\d+) of \d+ receipts")
_SETTLES: Final = ("ACK", "NACK", "BACK", "DACK", "REPLY")
#: Codes of errors after which the client does not hold the message any more.
_ENDED: Final = (None, UnknownReceiptError.code, "GONE")


async def subscribe(
    use_group: UseGroup, parts: Parts, topic: Spread, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answer one request until the client, or the end of a part, ends it; raises MiniqueueError before it begins."""
    query = query_of(scope, _OPTIONS)
    options = parse_stream_options(query)
    with parts.owners.gathering(scope) as gathering:
        gathering.add(STREAM_BYTES * topic.part_count)
        parts.check_all(topic)
        await use_group(topic.name, options.group)
        queries = [
            urlencode({**query, "prefetch": b"%d" % share}).encode()
            for share in shares(options.prefetch or 1, topic.part_count)
        ]
        stream = _Stream(parts, topic, scope, queries, options)
        parts.growth.add(topic.name, stream.end)
        try:
            if parts.spread_of(topic.name) != topic.part_count:
                stream.end()
            await stream.run(receive, send)
        finally:
            parts.growth.remove(topic.name, stream.end)


class _Command:
    """A command that some parts carry out, each for its own receipts.

    Attributes:
      is_answered: set when all of them have answered.
    """

    def __init__(self, part_count: int, receipt_count: int) -> None:
        self.is_answered = asyncio.Event()
        self._part_count = self._missing_count = part_count
        self._receipt_count = receipt_count
        self._errors: list[dict[str, Any]] = []

    def take(self, error: dict[str, Any] | None) -> bool:
        """Take the answer of a part, None if there is no error; return whether it is the last one."""
        self._missing_count -= 1
        if error is not None:
            self._errors.append(error)
        if not self._missing_count:
            self.is_answered.set()
        return not self._missing_count

    def error(self) -> bytes:
        """Return the line with the error; b"" if there is none."""
        unknown_count = 0
        if self._part_count == 1:
            return orjson.dumps(self._errors[0]) + b"\n" if self._errors else b""
        for error in self._errors:
            match = _UNKNOWN_RECEIPTS.match(error["error"])
            if match is None or error["code"] != UnknownReceiptError.code:
                return orjson.dumps(error) + b"\n"
            unknown_count += int(match[1])
        return encode_error(UnknownReceiptError(unknown_count, self._receipt_count)) if unknown_count else b""


class _PartStream:
    """The stream of one part, and what it has not answered yet."""

    def __init__(self, request: LastingRequest) -> None:
        self.request = request
        self.asked: deque[tuple[_Command, Sequence[bytes]]] = deque()


class _Stream:
    """The stream of one client."""

    def __init__(
        self, parts: Parts, topic: Spread, scope: Scope, queries: Sequence[bytes], options: StreamOptions
    ) -> None:
        self._scope = scope
        self._has_receipts = options.prefetch is not None
        is_wide = options.prefetch is not None and options.prefetch >= topic.part_count
        self._window = None if is_wide else Window(options.prefetch or 1)
        self._decoder = CommandDecoder()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._has_news, self._has_room, self._is_over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._has_begun = self._is_whole = self._is_ending = False
        self._parts = [
            _PartStream(
                LastingRequest(partial(parts.pass_on, topic, number, {**scope, "query_string": query}), lambda _: None)
            )
            for number, query in enumerate(queries)
        ]
        self._open_count = len(self._parts)

    async def run(self, receive: Receive, send: Send) -> None:
        """Serve the stream until its end; raises MiniqueueError if a part does not begin its own."""
        tasks: list[asyncio.Task[None]] = []
        try:
            refusals = await together(part.request.begun() for part in self._parts)
            if (refusal := next(filter(None, refusals), None)) is not None:
                await refusal.reply()(self._scope, receive, send)
                return
            await begin_json_lines(send)
            tasks = [asyncio.create_task(self._pump(number)) for number in range(len(self._parts))]
            tasks.append(asyncio.create_task(self._read(receive)))
            await self._write(send)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, *(part.request.close() for part in self._parts), return_exceptions=True)

    def end(self) -> None:
        """End the stream when the parts have answered what was sent: the client sends no more, or there are others."""
        self._is_ending = True
        for part in self._parts:
            part.request.end_feed()

    # --- to the client ----------------------------------------------------------------------------------------

    async def _write(self, send: Send) -> None:
        """Send what comes until the end; without the end of the reply if a part has failed."""
        while self._unsent or not self._is_over.is_set():
            self._has_news.clear()
            lines, self._unsent, self._unsent_bytes = self._unsent, [], 0
            self._has_room.set()
            if lines:
                await send({"type": "http.response.body", "body": b"".join(lines), "more_body": True})
            else:
                await self._has_news.wait()
        if self._is_whole:
            await send({"type": "http.response.body", "body": b""})

    def _put(self, *lines: bytes) -> None:
        self._unsent += lines
        self._unsent_bytes += sum(map(len, lines))
        self._has_news.set()

    def _fail(self, line: bytes) -> None:
        """Report an error; end the stream of a client that reads none of many."""
        self._put(line)
        if len(self._unsent) > MAX_UNSENT_LINES:
            self._end(is_whole=True)

    def _end(self, *, is_whole: bool) -> None:
        if not self._is_over.is_set():
            self._is_whole = is_whole
            self._is_over.set()
        self._has_news.set()

    # --- from the parts ---------------------------------------------------------------------------------------

    async def _pump(self, number: int) -> None:
        """Take what a part sends, until its end, which is the end of all, unless all are ending."""
        part, rest = self._parts[number], b""
        while came := await part.request.read():
            *lines, rest = (rest + came).split(b"\n")
            self._take(number, [line + b"\n" for line in lines])
            while self._unsent_bytes > MAX_UNSENT_BYTES:
                self._has_room.clear()
                await self._has_room.wait()
        self._open_count -= 1
        if not (self._is_ending and part.request.is_whole and self._open_count):
            self._end(is_whole=part.request.is_whole)

    def _take(self, number: int, lines: Sequence[bytes]) -> None:
        for line in lines:
            if line.startswith(ANSWER_START):
                self._answer(number, orjson.loads(line)["answer"])
            elif not line.startswith(b'{"receipt":"'):
                self._fail(line)
            elif self._window is None:
                self._put(line)
            else:
                self._window.add(number, line[_START : line.index(b'"', _START)], line)
        self._deliver()

    def _deliver(self) -> None:
        messages = [] if self._window is None else self._window.take()
        if messages:
            self._put(*(messages if self._has_receipts else map(_without_receipt, messages)))

    def _answer(self, number: int, error: dict[str, Any] | None) -> None:
        """Take what became of the first command that a part has not answered yet."""
        command, receipts = self._parts[number].asked.popleft()
        code = None if error is None else error["code"]
        if self._window is not None and code in _ENDED:
            for receipt in receipts:
                self._window.remove(receipt)
        if command.take(error) and (line := command.error()):
            self._fail(line)

    # --- from the client --------------------------------------------------------------------------------------

    async def _read(self, receive: Receive) -> None:
        more_body = True
        while more_body and not self._is_over.is_set():
            message = await receive()
            if self._is_ending:
                return
            if message["type"] == "http.disconnect":
                self._end(is_whole=True)
                return
            more_body = message.get("more_body", False)
            for command in self._decoder.feed(message.get("body", b"")):
                if self._is_ending:
                    return
                await self._execute(command)
                for part in self._parts:
                    if part.request.is_full:
                        await part.request.drain()
            if self._decoder.error is not None:
                self._put(encode_error(self._decoder.error))
                break
        self.end()

    async def _execute(self, text: str) -> None:
        """Pass a command on to the parts that it concerns; without receipts, wait until they have answered."""
        name, *arguments = text.split(" ")
        try:
            if name == "INIT":
                self._begin()
            elif name in _SETTLES and not self._has_receipts:
                await self._settle_only(name, arguments)
            else:
                self._settle(name, arguments)
        except MiniqueueError as error:
            self._fail(encode_error(error))

    def _begin(self) -> None:
        """Request the first messages of all parts, once."""
        if self._has_begun:
            raise MessageOutstandingError("error getting next value for consumer")
        self._has_begun = True
        command = _Command(len(self._parts), 0)
        for number in range(len(self._parts)):
            self._ask(number, "INIT", command, ())

    async def _settle_only(self, name: str, arguments: list[str]) -> None:
        """Settle the message that the client has, by its receipt; raises NothingOutstandingError."""
        assert self._window is not None  # the client wants one message at a time
        if not (receipts := self._window.receipts):
            if not self._has_begun:
                self._begin()
            raise NothingOutstandingError("no message is outstanding")
        receipt = receipts[0].decode()
        if name in ("ACK", "BACK"):
            words = [receipt]
        elif name == "DACK":
            words = [*arguments[:1], receipt] if arguments else []
        else:
            words = [receipt, *arguments]
        command = _OnlyCommand(name)
        self._ask(part_of_receipt(receipts[0]) % len(self._parts), " ".join([name, *words]), command, receipts)
        await command.is_answered.wait()
        self._deliver()

    def _settle(self, name: str, arguments: list[str]) -> None:
        before, receipts, after = _arguments(name, arguments)
        encoded = [receipt.encode() for receipt in receipts]
        numbers = indexes_by_run(list(map(mod, parts_of_receipts(encoded), repeat(len(self._parts)))))
        if len(numbers) > 1:
            parse_receipts(encoded)  # if one is invalid, none is settled
        command = _Command(max(1, len(numbers)), len(receipts))
        for number, indexes in (numbers or {0: []}).items():  # without receipts, a part says what is wrong
            words = [name, *before, *map(receipts.__getitem__, indexes), *after]
            self._ask(number, " ".join(words), command, list(map(encoded.__getitem__, indexes)))

    def _ask(self, number: int, text: str, command: _Command, receipts: Sequence[bytes]) -> None:
        part = self._parts[number]
        part.asked.append((command, receipts))
        part.request.feed_now(orjson.dumps(text) + b"\n")


class _OnlyCommand(_Command):
    """A command on the only message that the client has, which has no receipt for the client."""

    def __init__(self, name: str) -> None:
        super().__init__(1, 1)
        self._name = name

    def error(self) -> bytes:
        """Return the line with the error; b"" if there is none: a message that is gone counts as acknowledged."""
        if not self._errors or self._errors[0]["code"] != UnknownReceiptError.code:
            return super().error()
        return b"" if self._name == "ACK" else encode_error(NothingOutstandingError("no message is outstanding"))


def _arguments(name: str, words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Return what comes before the receipts of a command, the receipts, and what follows them."""
    if name == "DACK":
        return words[:1], words[1:], []
    if name == "REPLY":
        return [], words[:1], words[1:]
    if name != "NACK":
        return [], words, []
    end = words.index("REASON") if "REASON" in words else len(words)
    if words[max(0, end - 2) : end - 1] == ["DELAY"]:
        end -= 2
    return [], words[:end], words[end:]


def _without_receipt(line: bytes) -> bytes:
    """Return a message as a stream without receipts delivers it."""
    rest = line[line.index(b'"', _START) + 1 :]
    return b"{" + rest.removeprefix(b",")
