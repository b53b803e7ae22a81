"""SUBSCRIBE to a spread topic: the streams of all parts, each over a link of its own, as one stream of the client.

    C: SUBSCRIBE orders PREFETCH 100 ─▶ each of 8 parts: SUBSCRIBE, PREFETCH 12 or 13
    part ─▶ a message ─▶ the client, unless it has as many as it wants (`window`)
    C: ACK 17 … ─▶ the parts that the receipts contain, each its own ─▶ the reply, when all have answered

Replies have the order of the commands, and a message that a part sends after a reply comes after it. If the stream of a
part ends, so does the connection, as with an ordinary topic: the others return what they hold.
"""

import re
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import repeat
from operator import mod
from typing import Final

import hiredis

from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.core.cursor.receipts import parse_receipts, parts_of_receipts
from miniqueue.core.message.partitioning import indexes_by_run
from miniqueue.core.message.parts import part_name
from miniqueue.core.options.consume import parse_prefetch
from miniqueue.errors import MiniqueueError, NothingOutstandingError, ProtocolError, UnknownCommandError
from miniqueue.errors.requests import OutcomeUnknownError, ShardAwayError, SpreadTopicError, UnknownReceiptError
from miniqueue.server.resp.commands import table
from miniqueue.server.resp.commands.subscribe import DEFAULT_DELAY_SECONDS
from miniqueue.server.resp.replies import LateReply
from miniqueue.server.resp.router import RoutedClient
from miniqueue.server.shards.links.growth import Growth
from miniqueue.server.shards.links.link import Batch, Failure, Link, Tunneled
from miniqueue.server.shards.links.window import Window, shares
from miniqueue.wire.resp_arguments import nack_options_of
from miniqueue.wire.resp_parser import Command, encode_command
from miniqueue.wire.resp_replies import OK
from miniqueue.wire.resp_replies import error as resp_error
from miniqueue.wire.resp_splitting import end_of_reply

#: The commands of a stream that concern messages.
_ABOUT_MESSAGES: Final = frozenset({b"ACK", b"NACK", b"BACK", b"DACK", b"REPLY"})
#: The commands of a stream that the connection carries out.
_ALLOWED: Final = frozenset({b"PING", b"QUIT", b"RESET"})
#: Errors after which the client has the messages no more.
_ENDED: Final = (b"-NOLEASE", b"-GONE")
_UNKNOWN_RECEIPTS: Final = re.compile(rb"-NOLEASE (\d+) of \d+ receipts")
_DELIVERY: Final = ord("*")


class SpreadStream:
    """The mode of a connection that has subscribed to a spread topic.

    Args:
      client: the connection.
      command: the SUBSCRIBE.
      part_count: the number of parts.
      growth: reports that there are others, which ends the stream.

    Raises InvalidPrefetchError.
    """

    is_subscription = True

    def __init__(self, client: RoutedClient, command: Command, part_count: int, growth: Growth) -> None:
        self._client = client
        self._growth = growth
        self._topic = command[1]
        self._opening = _Opening(command, part_count)
        self._has_receipts = self._opening.has_receipts
        self._window = self._opening.window()
        self._parts: list[_Part] = []
        self._charged_bytes = 0
        self._early: list[bytes] = []  # what has come before all parts have accepted
        self._is_open = self._is_over = self._is_ending = False
        self._unanswered_count = 0
        self._postponed: Command | None = None  # the command that is carried out when all before it are answered

    def begin(self, links: Sequence[Link]) -> None:
        """Subscribe to all parts, each over a new link; the connection is held until they have accepted."""
        self._client.hold()
        self._parts = [_Part(self, number, link) for number, link in enumerate(links)]
        self._unanswered_count = len(self._parts)
        for part in self._parts:
            part.subscribe(self._opening.command_for(part.number))

    # --- the client -------------------------------------------------------------------------------------------

    def execute(self, command: Command) -> bytes:
        """Carry out a command; its reply comes later, or is returned. Raises MiniqueueError."""
        word = command[0].upper()
        if self._is_ending:  # it gets no more replies
            return b""
        if self._must_wait(word):
            self._client.hold()
            self._postponed = command
            return b""
        if word in _ABOUT_MESSAGES:
            self._settle(word, command)
            return b""
        if word in (b"MULTI", b"LEASES"):
            raise SpreadTopicError(self._topic, f"{word.decode()} of a stream")
        if word not in _ALLOWED:
            raise UnknownCommandError("invalid command" if len(command) > 1 else "invalid ack command")
        return table.execute(self._client, command)

    def _must_wait(self, word: bytes) -> bool:
        """Return whether a command waits for the replies before it: the stream ends, or has its next message then."""
        if not self._unanswered_count:
            return False
        return word in (b"QUIT", b"RESET") or (word in _ABOUT_MESSAGES and not self._has_receipts)

    @property
    def is_wide(self) -> bool:
        """Whether the client gets all messages of the parts as they come."""
        return self._window is None

    def end(self) -> None:
        """End the stream when the parts have answered what was sent: the client sends no more, or there are others."""
        if not self._is_ending:
            self._is_ending = True
            for part in self._parts:
                part.link.end()

    def close(self) -> None:
        """End the streams: the parts return what the client holds."""
        self._is_over = True
        self._charge(0)
        self._growth.remove(self._topic, self.end)
        parts, self._parts = self._parts, []
        for part in parts:
            part.link.close()

    def pause(self) -> None:
        """Read nothing of the parts until `resume`."""
        for part in self._parts:
            part.link.pause()

    def resume(self) -> None:
        """Read on."""
        for part in self._parts:
            part.link.resume()

    # --- settling ---------------------------------------------------------------------------------------------

    def _settle(self, word: bytes, command: Command) -> None:
        before, receipts, after = self._arguments(word, command)
        if not self._has_receipts:
            if receipts:
                raise UnknownCommandError("invalid command")
            receipts = self._window.receipts if self._window is not None else []
            if not receipts:
                raise NothingOutstandingError
        parts = indexes_by_run(list(map(mod, parts_of_receipts(receipts), repeat(len(self._parts)))))
        if len(parts) > 1:
            parse_receipts(receipts)  # if one is invalid, none is settled
        late = self._client.await_reply(sum(map(len, command)))
        answer = _Answer(late, max(1, len(parts)), len(receipts))
        self._unanswered_count += 1
        for number, indexes in (parts or {0: []}).items():  # without receipts, a part says what is wrong
            own = list(map(receipts.__getitem__, indexes))
            self._parts[number].ask(encode_command([word, *before, *own, *after]), answer, own)

    def _arguments(self, word: bytes, command: Command) -> tuple[Command, Command, Command]:
        """Return what comes before the receipts, the receipts, and what follows them; raises RequestError."""
        words = command[1:]
        if not self._has_receipts and words[:1] == [self._topic] and len(words) == 1 + (word == b"DACK"):
            words = words[1:]  # clients of OPQ name the topic
        if word == b"NACK":
            receipts = nack_options_of(words, 0)[0]
            return [], receipts, words[len(receipts) :]
        if word == b"REPLY":
            if len(words) != 1 + self._has_receipts:
                raise UnknownCommandError("invalid command")
            return [], words[:-1], words[-1:]
        if word == b"DACK":
            return words[:1] or [b"%g" % DEFAULT_DELAY_SECONDS], words[1:], []
        return [], words, []

    def answered(self, answer: "_Answer", reply: bytes, receipts: Command) -> None:
        """Take the reply of a part to the settle of these receipts; only parts call this, as those below."""
        if self._is_over:
            return
        if self._window is not None and (reply == OK or reply.startswith(_ENDED)):
            for receipt in receipts:
                self._window.remove(receipt)
        if whole := answer.take(reply):
            self._unanswered_count -= 1
            self._client.give_out([answer.late], [whole])
        if self._window is not None:
            self._deliver_from(self._window)
        if not self._unanswered_count and (postponed := self._postponed) is not None:
            self._postponed = None
            try:
                reply = self.execute(postponed)
            except MiniqueueError as exc:
                reply = self._client.refusal(exc)
            self._client.release(reply)

    # --- the parts --------------------------------------------------------------------------------------------

    def accepted(self) -> None:
        """Note that a part has begun its stream; with the last one, the connection becomes one."""
        self._unanswered_count -= 1
        if not self._unanswered_count and not self._is_over:
            self._is_open = True
            self._client.mode = self
            self._growth.add(self._topic, self.end)
            early, self._early = self._early, []
            self._client.release(b"".join(early))
            if self._client.broker.spread_of(self._topic) != len(self._parts):
                self.end()

    def refused(self, error: bytes) -> None:
        """End all streams, since one could not begin."""
        if not self._is_over:
            self.close()
            self._client.release(error)

    def refuse_away(self) -> None:
        """End all streams, since the shard of a part does not answer."""
        self.refused(self._client.refusal(ShardAwayError("the shard of a part does not answer; try again")))

    def take(self, number: int, deliveries: Sequence[bytes]) -> None:
        """Deliver messages of a part, or keep them until there is room."""
        if self._is_over:
            return
        if self._window is None:
            self._deliver(deliveries)
            return
        for message in deliveries:
            _, _, receipt, _ = message.split(b"\r\n", 3)
            self._window.add(number, receipt, message)
        self._deliver_from(self._window)

    def _deliver_from(self, window: Window) -> None:
        """Deliver what there is room for; what waits is charged to the client."""
        self._deliver(window.take())
        self._charge(window.waiting_bytes)

    def _charge(self, size_bytes: int) -> None:
        self._client.account.add(Purpose.LEASES, size_bytes - self._charged_bytes)
        self._charged_bytes = size_bytes

    def _deliver(self, messages: Sequence[bytes]) -> None:
        if not self._has_receipts:
            messages = [_payload_of(message) for message in messages]
        if messages:
            self.send(b"".join(messages))

    def send(self, data: bytes) -> None:
        """Send messages, or an error that concerns no command."""
        if self._is_open and not self._is_over:
            self._client.send(data)
        else:
            self._early.append(data)

    def part_ended(self, part: "_Part") -> None:
        """End the connection: a part has ended its stream, or all have, as the client has ended."""
        if not self._is_open:
            self.refuse_away()
            return
        part.has_ended = True
        if self._is_over or (self._is_ending and not all(each.has_ended for each in self._parts)):
            return
        error = OutcomeUnknownError("the shard of a part has ended; whether the command was carried out is unknown")
        lost = dict.fromkeys(answer.late for each in self._parts for answer, _ in each.asked)
        self.close()
        self._client.give_out([*lost], [self._client.refusal(error)] * len(lost))
        if self._client.mode is self:
            self._client.mode = None
            self._client.close_when_sent()

    def abort(self) -> None:
        """End the connection at once: what a part sends makes no sense."""
        self.close()
        self._client.abort()


class _Opening:
    """A SUBSCRIBE, and what each part gets of it; raises InvalidPrefetchError."""

    def __init__(self, command: Command, part_count: int) -> None:
        self._word, self._topic, *words = command
        names = [word.upper() for word in words[::2]]
        at = 2 * names.index(b"PREFETCH") if b"PREFETCH" in names else len(words)
        self.has_receipts = at + 1 < len(words)
        self._prefetch = parse_prefetch(words[at + 1]) if self.has_receipts else 1
        self._part_count = part_count
        self._others = words[:at] + words[at + 2 :] if self.has_receipts else words

    def window(self) -> Window | None:
        """Return what holds messages back; None if the parts together give no more than is wanted."""
        is_wide = self.has_receipts and self._prefetch >= self._part_count
        return None if is_wide else Window(self._prefetch)

    def command_for(self, number: int) -> bytes:
        """Return the SUBSCRIBE to a part."""
        share = shares(self._prefetch, self._part_count)[number]
        part = part_name(self._topic, number)
        return encode_command([self._word, part, *self._others, b"PREFETCH", b"%d" % share])


class _Answer:
    """The reply to a command that some parts carry out, each for its own receipts."""

    __slots__ = ("_missing_count", "_receipt_count", "_replies", "late")

    def __init__(self, late: LateReply, part_count: int, receipt_count: int) -> None:
        self.late = late
        self._missing_count = part_count
        self._receipt_count = receipt_count
        self._replies: list[bytes] = []

    def take(self, reply: bytes) -> bytes:
        """Take the reply of a part; return the whole reply when there is none missing, and nothing before."""
        self._missing_count -= 1
        self._replies.append(reply)
        return b"" if self._missing_count else _merged(self._replies, self._receipt_count)


class _Part:
    """The stream of one part."""

    def __init__(self, stream: SpreadStream, number: int, link: Link) -> None:
        self.number = number
        self.link = link
        self.has_ended = False
        self.asked: deque[tuple[_Answer, Command]] = deque()  # what is not answered yet, with its receipts
        self._stream = stream
        self._rest = b""

    def subscribe(self, command: bytes) -> None:
        """Begin the stream."""
        self.link.open_tunnel(Tunneled(self._take, partial(self._stream.part_ended, self)))
        self.link.send(command, Batch(None, self._begun, self._failed))

    def ask(self, command: bytes, answer: _Answer, receipts: Command) -> None:
        """Send a command that settles messages."""
        self.asked.append((answer, receipts))
        self.link.write(command)

    def _begun(self, reply: bytes) -> None:
        if reply.startswith(b"-"):
            self._stream.refused(reply)
            return
        self._take(reply)
        self._stream.accepted()

    def _failed(self, _: Failure) -> None:
        self._stream.refuse_away()

    def _take(self, data: bytes) -> None:
        """Take what the part sends: messages are arrays, replies and errors are lines."""
        data, at, deliveries = self._rest + data, 0, list[bytes]()
        try:
            while at < len(data):
                if data[at] == _DELIVERY and not deliveries and self._stream.is_wide and _are_arrays(rest := data[at:]):
                    self._stream.send(rest)  # fast path: a tenth of the time
                    at = len(data)
                    break
                try:
                    end = end_of_reply(data, at)
                except ProtocolError:  # the rest is missing
                    break
                if data[at] == _DELIVERY:
                    deliveries.append(data[at:end])
                else:
                    deliveries = self._give(deliveries)
                    self._answer(data[at:end])
                at = end
        except (MiniqueueError, ValueError):
            self._stream.abort()
            return
        self._rest = data[at:]
        self._give(deliveries)

    def _give(self, deliveries: list[bytes]) -> list[bytes]:
        if deliveries:
            self._stream.take(self.number, deliveries)
        return []

    def _answer(self, line: bytes) -> None:
        if self.asked:
            answer, receipts = self.asked.popleft()
            self._stream.answered(answer, line, receipts)
        else:
            self._stream.send(line)


def _are_arrays(data: bytes) -> bool:
    """Return whether replies are arrays, and the last one is whole: then an empty line that follows is a reply."""
    reader = hiredis.Reader()
    reader.feed(data + b"+\r\n")
    try:
        *replies, last = iter(reader.gets, False)  # without a step of Python for each
    except (hiredis.HiredisError, ValueError):  # the line is in a reply that is not whole
        return False
    return bool(last == b"") and set(map(type, replies)) == {list} and not reader.has_data()


def _payload_of(message: bytes) -> bytes:
    """Return the payload of a message, as a stream without receipts delivers it."""
    start = message.index(b"\r\n", message.index(b"\r\n") + 2) + 2
    start = message.index(b"\r\n", start) + 2  # after the receipt
    return message[start : end_of_reply(message, start)]


def _merged(answers: Sequence[bytes], receipt_count: int) -> bytes:
    """Return the replies of parts to a settle as one: OK, or an error, which counts the receipts of all."""
    if len(answers) == 1:
        return answers[0]
    unknown_count = 0
    for answer in answers:
        if match := _UNKNOWN_RECEIPTS.match(answer):
            unknown_count += int(match[1])
        elif answer != OK:
            return answer
    if not unknown_count:
        return OK
    error = UnknownReceiptError(unknown_count, receipt_count)
    return resp_error(error.code, str(error))
