"""The RESP listener: connections of Redis clients and of people with telnet.

Bytes become commands in `wire`, commands become calls of the broker. A run of PUBLISH to one topic in one read is
one list, added to the commit that is being gathered. Replies leave in the order of their commands: what waits for
a commit holds back all that comes after it.

    data_received ─▶ commands ─▶ publish run ──▶ broker       _outcomes:  [commit, +OK ×32] [–, +PONG] …
                              └▶ any other ───▶ resp_commands      └─ on_commit ─▶ write what is ready
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

import structlog

from miniqueue.broker import Commit, Published
from miniqueue.errors import MiniqueueError, PayloadTooLargeError
from miniqueue.server import resp_commands
from miniqueue.server.resp_errors import refuse_oversized
from miniqueue.server.resp_guard import Guard
from miniqueue.server.resp_session import Session
from miniqueue.server.resp_stream import Stream
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import MAX_COMMAND_BYTES, Command
from miniqueue.wire.resp_reader import CommandReader
from miniqueue.wire.resp_runs import Run

if TYPE_CHECKING:
    from miniqueue.server.resp_server import RespServer

log = structlog.get_logger()

#: Above this much published and not yet committed, a connection is not read from.
MAX_UNCOMMITTED_BYTES = 4 << 20
#: What a command counts that waits for its commit, beside its messages and its reply, which may be empty and short.
WAITING_BYTES = 256
#: Above this much in replies that have not been handed to the transport, no more commands are carried out.
MAX_UNSENT_BYTES = 1 << 20
#: As many commands are carried out at once, a run of PUBLISH being one of them; then it is the turn of others.
MAX_COMMANDS_IN_TURN = 512
#: As much as uvloop reads at once. Behind a read of that size libuv reads on, up to 32 times, before others get a turn.
FULL_READ_BYTES = 256_000
#: Arguments up to this size are read whatever the limit for messages is: there must be room for words and names.
MIN_ARGUMENT_BYTES = 1024
_PUBLISH = frozenset({b"PUBLISH", b"publish"})


class RespConnection(asyncio.Protocol):
    """One connection: its bytes, its replies in order, and its session."""

    def __init__(self, server: "RespServer") -> None:
        self.server = server
        self.broker = server.broker
        self.session: Session = Session(next(server.next_id))
        self.stream: Stream | None = None
        self.guard = None if server.sign_in is None else Guard(self, server.sign_in)
        max_argument_bytes = max(server.broker.max_message_bytes, MIN_ARGUMENT_BYTES)
        self._reader = CommandReader(
            max_payload_bytes=max_argument_bytes,
            max_command_bytes=max(MAX_COMMAND_BYTES, 2 * max_argument_bytes),
            run_words=_PUBLISH,
        )
        self._outcomes: deque[tuple[Commit | None, bytes, int]] = deque()
        self._awaited: Commit | None = None
        self._uncommitted_bytes = 0
        self._unsent_bytes = 0
        self._postponed: list[Command | Run] = []  # read, but to be carried out when the peer has taken earlier replies
        self._loop = asyncio.get_running_loop()
        self.tasks: set[asyncio.Task[None]] = set()
        self._is_peer_slow = False
        self._is_held = False
        self._is_turn_due = False
        self._is_closing = False

    # --- the transport ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the server."""
        self._transport = cast(asyncio.Transport, transport)
        self.session.peer = transport.get_extra_info("peername")
        self.server.connections[self.session.id] = self
        if self.guard is not None:
            self.guard.start(transport.get_extra_info("ssl_object"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the server; what was leased goes to the front of its topic."""
        self._is_closing = True
        del self.server.connections[self.session.id]
        self._outcomes.clear()
        self.leave()
        if self.guard is not None:
            self.guard.stop()

    def eof_received(self) -> bool:
        """Carry out and answer what was asked, return what was leased, then close."""
        while self._postponed and not self._has_too_much():
            self._carry_out(self._postponed)
        self.leave()
        self.close_when_sent()
        # The transport is ours to close: there may be replies that wait for a commit. TLS cannot be half closed.
        return self._transport.get_extra_info("ssl_object") is None

    def data_received(self, data: bytes) -> None:
        """Carry out every command that is complete."""
        if not self._is_closing:
            self._carry_out(self._postponed + self._reader.read(data))
            if self.guard is not None and not self._is_closing:
                self.guard.note_read(len(data))
            if len(data) >= FULL_READ_BYTES and not self._is_closing:
                self._let_others_go_first()

    def _carry_out(self, commands: list[Command | Run]) -> None:
        """Carry out commands, as many as a turn has and the peer takes the replies of; the rest is postponed."""
        if self._is_held:
            self._postponed = commands  # they were in flight when reading was paused
            return
        self._postponed = commands[MAX_COMMANDS_IN_TURN:]
        for position, command in enumerate(commands[:MAX_COMMANDS_IN_TURN], start=1):
            self._execute(command)
            if self._unsent_bytes > MAX_UNSENT_BYTES:
                self.flush()
            if self._is_closing or self._is_held or self._is_peer_slow or self._unsent_bytes > MAX_UNSENT_BYTES:
                self._postponed = commands[position:]
                break
        if self._reader.error is not None and not (self._is_closing or self._is_held or self._postponed):
            self._refuse(self._reader.error)
        if self._is_closing or (self._outcomes and not self._awaits_commit()):
            self.flush()
        if self._has_too_much():
            self._adjust_reading()
        elif self._postponed and not self._is_closing:
            self._let_others_go_first()

    def _let_others_go_first(self) -> None:
        """Go on in the next turn of the loop."""
        self._transport.pause_reading()
        self._go_on_soon()

    def _go_on_soon(self) -> None:
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._go_on)

    def _awaits_commit(self) -> bool:
        """Whether the next reply is of a commit under way, which will call `flush`."""
        commit = self._outcomes[0][0]
        return commit is not None and not commit.is_done

    def _has_too_much(self) -> bool:
        return (
            self._is_peer_slow
            or self._is_held
            or self._unsent_bytes > MAX_UNSENT_BYTES
            or self._uncommitted_bytes > MAX_UNCOMMITTED_BYTES
        )

    def pause_writing(self) -> None:
        """The peer does not read its replies: stop reading from it."""
        self._is_peer_slow = True
        self._adjust_reading()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._is_peer_slow = False
        self._adjust_reading()

    def _adjust_reading(self) -> None:
        if self._has_too_much():
            self._transport.pause_reading()
        elif self._postponed or self._reader.error is not None:
            self._go_on_soon()
        elif not self._transport.is_reading() and not self._is_closing:
            self._transport.resume_reading()

    def _go_on(self) -> None:
        self._is_turn_due = False
        if not self._is_closing and not self._has_too_much():
            self._carry_out(self._postponed)
            self._adjust_reading()

    # --- commands ---------------------------------------------------------------------------------------------

    def _execute(self, command: Command | Run) -> None:
        """Carry out a command, or a run of PUBLISH."""
        if isinstance(command, Run):
            if self.stream is None and (self.guard is None or self.guard.lets_publish(command.head[1])):
                self.publish(command.head[1], command.lasts)
            else:
                for last in command.lasts:
                    self._execute([*command.head, last])
            return
        try:
            refuse_oversized(command, self.broker.max_message_bytes)
            reply = self.stream.execute(command) if self.stream else resp_commands.execute(self, command)
        except MiniqueueError as exc:
            reply = replies.error(exc.code, str(exc))
        if reply:  # empty when it has been queued already
            self.reply(reply)

    def publish(self, topic: bytes, payloads: list[bytes]) -> None:
        """Publish messages and queue their replies."""
        try:
            self.wait_for(self._add(topic, payloads).commit, replies.OK, len(payloads))
        except PayloadTooLargeError as exc:
            if len(payloads) == 1:
                self.reply(replies.error(exc.code, str(exc)))
                return
            for payload in payloads:  # one of the run is too large: that one is refused, no other
                self.publish(topic, [payload])
        except MiniqueueError as exc:
            self.reply(replies.error(exc.code, str(exc)) * len(payloads))

    def publish_together(self, topic: bytes, payloads: list[bytes]) -> None:
        """Publish messages in one commit and queue the reply with their ids; raises MiniqueueError."""
        published = self._add(topic, payloads)
        numbers = range(published.first_seq, published.first_seq + len(payloads))
        ids = [replies.bulk(b"%d-%d" % (published.partition, number)) for number in numbers]
        self.wait_for(published.commit, replies.array(ids))

    def _add(self, topic: bytes, payloads: list[bytes]) -> Published:
        self._uncommitted_bytes += sum(map(len, payloads))
        return self.broker.publish(topic, payloads)

    def hold(self) -> None:
        """Carry out nothing more until `release`: the reply to a command is being made elsewhere."""
        self._is_held = True

    def release(self, reply: bytes) -> None:
        """Send the reply that was waited for, and go on."""
        self._is_held = False
        if not self._is_closing:
            self.reply(reply)
            self.flush()
            self._adjust_reading()

    # --- replies ----------------------------------------------------------------------------------------------

    def reply(self, reply: bytes) -> None:
        """Send `reply` after all replies before it."""
        self._outcomes.append((None, reply, 1))
        self._unsent_bytes += len(reply)

    def send(self, reply: bytes) -> None:
        """Send `reply` after all replies before it, now; not by the queue if that is empty: 68 instructions less."""
        if self._outcomes:
            self.reply(reply)
            self.flush()
        else:
            self._transport.write(reply)

    def wait_for(self, commit: Commit, reply: bytes, times: int = 1) -> None:
        """Send `reply`, `times` over, when `commit` is done, or its error as often."""
        self._outcomes.append((commit, reply, times))
        self._uncommitted_bytes += WAITING_BYTES + len(reply) * times
        if self._awaited is not commit:
            self._awaited = commit
            commit.add_listener(self.flush)

    def flush(self) -> None:
        """Write the replies that are ready."""
        outcomes = self._outcomes
        ready: list[bytes] = []
        while outcomes:
            commit, reply, times = outcomes[0]
            if commit is not None:
                if not commit.is_done:
                    break
                if commit.error is not None:
                    reply = replies.error(commit.error.code, str(commit.error))
            ready.append(reply * times)
            outcomes.popleft()
        if ready:
            self._transport.write(b"".join(ready))
        if not outcomes:
            self._all_answered()

    def _all_answered(self) -> None:
        self._uncommitted_bytes = self._unsent_bytes = 0
        if self._is_closing:
            self._transport.close()
        elif self._postponed or not self._transport.is_reading():
            self._adjust_reading()

    def leave(self) -> None:
        """End the stream, if there is one: its lease goes back to the front of the topic."""
        if self.stream is not None:
            self.stream.close()
            self.stream = None

    def close_when_sent(self) -> None:
        """Read no more, and close when the last reply has been sent."""
        self._is_closing = True
        self.flush()

    def _refuse(self, error: MiniqueueError) -> None:
        log.info("connection closed", peer=self.session.address, reason=str(error))
        self.reply(replies.error(error.code, str(error)))
        self.leave()
        self._is_closing = True
