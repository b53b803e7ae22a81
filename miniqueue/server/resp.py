"""The RESP listener: connections of Redis clients and of people with telnet.

Bytes become commands in `wire`, commands become calls of the broker. A run of PUBLISH to one topic in one read is
one list, added to the commit that is being gathered. Replies leave in the order of their commands (`resp_output`).

    data_received ─▶ commands ─▶ publish run ──▶ broker ──▶ the reply waits for its commit
                   │          └▶ any other ───▶ resp_commands ──▶ the reply
                   └─ more than a turn has time for: `resp_input`, `resp_turns`
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

import structlog

from miniqueue.errors import MiniqueueError, PayloadTooLargeError, TopicFullError
from miniqueue.server import resp_commands
from miniqueue.server.resp_backlog import Backlog
from miniqueue.server.resp_channels import Channels
from miniqueue.server.resp_farewell import Farewell
from miniqueue.server.resp_get import Gotten
from miniqueue.server.resp_guard import Guard
from miniqueue.server.resp_input import MAX_READ_BYTES, MAX_STRICT_WORDS, Input
from miniqueue.server.resp_refusals import Reason, reason_of
from miniqueue.server.resp_session import Session
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_limits import limits_for
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_reader import CommandReader
from miniqueue.wire.resp_runs import Run
from miniqueue.wire.resp_stranger import StrangerReader

if TYPE_CHECKING:
    from miniqueue.server.resp_server import RespServer

log = structlog.get_logger()

#: Arguments up to this size are read whatever the limit for messages is: there must be room for words and names.
MIN_ARGUMENT_BYTES = 1024
_PUBLISH = frozenset({b"PUBLISH", b"publish"})


class RespConnection(Input):
    """One connection: its bytes, its replies in order, and its session."""

    def __init__(self, server: "RespServer") -> None:
        backlog = Backlog(server.broker.max_message_bytes, self._cut_slow, server.max_output_bytes)
        super().__init__(server, Session(next(server.next_id)), backlog)
        self.broker = server.broker
        self.gotten = Gotten()
        self.tasks: set[asyncio.Task[None]] = set()
        self.guard = None if server.sign_in is None else Guard(self, server.sign_in)
        if self.guard is None:
            self.trust()

    def trust(self) -> None:
        """Let the client send what users may send, from the bytes on that have not been read."""
        if isinstance(self._reader, StrangerReader):
            rest = self._reader.take_rest()
            self._reader = CommandReader(
                limits_for(max(self.broker.max_message_bytes, MIN_ARGUMENT_BYTES)),
                run_words=_PUBLISH,
                max_strict_words=MAX_STRICT_WORDS,
                max_read_bytes=MAX_READ_BYTES,
            )
            if rest:
                self._reader.keep(rest)

    # --- the transport ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the server."""
        self._transport = cast(asyncio.Transport, transport)
        self.session.peer = transport.get_extra_info("peername")
        self.server.add(self)
        if self.guard is not None:
            self.guard.start(transport.get_extra_info("ssl_object"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the server; what was leased goes to the front of its topic."""
        self._is_closing = True
        self.server.remove(self)
        self._outcomes.clear()
        self._backlog.forget()
        if self._farewell is not None:
            self._farewell.end()
        self.leave()
        if self.guard is not None:
            self.guard.stop()

    # --- commands ---------------------------------------------------------------------------------------------

    def _execute(self, command: Command | Run) -> None:
        """Carry out a command, or a run of PUBLISH."""
        if isinstance(command, Run):
            head, lasts = command
            self.command_count += len(lasts) - 1
            if self.mode is None and (self.guard is None or self.guard.lets_publish(head[1])):
                self.publish(head[1], lasts)
            else:
                for last in lasts:
                    self._execute([*head, last])
            return
        try:
            reply = self.mode.execute(command) if self.mode else resp_commands.execute(self, command)
        except MiniqueueError as exc:
            reply = self._refusal(exc)
        if reply:  # empty when it has been queued already
            self.reply(reply)

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for something: messages, or a reply, but not one that it does not take."""
        is_behind = self._is_behind() and not self._is_peer_slow
        is_subscribed = self.stream is not None or isinstance(self.mode, Channels)
        return is_subscribed or self._is_held or bool(self._outcomes) or is_behind

    @property
    def has_ended(self) -> bool:
        """Whether the client sends no more; it may still read, or have gone."""
        return self._has_ended

    def publish(self, topic: bytes, payloads: list[bytes]) -> None:
        """Publish messages and queue their replies, now or when there is room."""
        if self.broker.crowd.is_there:
            self._wait_for_room(partial(self._publish, topic, payloads))
        else:
            self._publish(topic, payloads)

    def when_room(self, publish: Callable[[], None]) -> None:
        """Call what publishes and queues its reply, now or when there is room; raises MiniqueueError, as it may."""
        if self.broker.crowd.is_there:
            self._wait_for_room(publish)
        else:
            publish()

    def _wait_for_room(self, publish: Callable[[], None]) -> None:
        self.hold()
        self.broker.crowd.when_gone(partial(self._act_late, publish))

    def after_writes(self, act: Callable[[], bytes]) -> bytes:
        """Return the reply of `act`, or nothing if it comes after the commit of what this connection wrote."""
        commit = self._awaited
        if commit is None or commit.is_done:
            return act()
        self.hold()
        commit.add_listener(partial(self._act_next_turn, act))
        return b""

    def _act_next_turn(self, act: Callable[[], bytes]) -> None:
        # Not in this turn: other listeners of the commit make what was written readable.
        asyncio.get_running_loop().call_soon(self._act_late, act)

    def _act_late(self, act: Callable[[], bytes | None]) -> None:
        self._is_held = False
        if self._is_closing:
            return
        self.session.act()
        try:
            if reply := act():
                self.reply(reply)
        except MiniqueueError as exc:
            self.reply(self._refusal(exc))
        except Exception:
            self._cut_broken()
            return
        self.flush()
        self._adjust_reading()

    def _refusal(self, error: MiniqueueError) -> bytes:
        """Return the reply that says what was wrong; a message that is too large is counted."""
        self.broker.limit_counts.note(error)
        return replies.error(error.code, str(error))

    def _publish(self, topic: bytes, payloads: list[bytes]) -> None:
        try:
            commit, _, _, size_bytes = self.broker.publish(topic, payloads)
            self._uncommitted_bytes += size_bytes
            self.wait_for(commit, replies.OK, len(payloads))
        except PayloadTooLargeError as exc:
            if len(payloads) == 1:
                self.reply(self._refusal(exc))
                return
            for payload in payloads:  # one of the run is too large: that one is refused, no other
                self._publish(topic, [payload])
        except TopicFullError as exc:
            if count := exc.fitting_count:
                self._publish(topic, payloads[:count])
            self.reply(replies.error(exc.code, str(exc)) * (len(payloads) - count))
        except MiniqueueError as exc:
            self.reply(replies.error(exc.code, str(exc)) * len(payloads))

    # --- the end ----------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """End the stream, if there is one: what is held goes back to the front of the topic; wait no longer."""
        self.give_up_waiting()
        self.gotten.close()
        self.mode = None
        if self.stream is not None:
            self.stream.close()
            self.stream = None

    def _end(self) -> None:
        self.leave()
        self.close_when_sent()

    def _refuse(self, error: MiniqueueError) -> None:
        """Say what was wrong, but not to a peer of another protocol, and have the connection end."""
        self.server.refusals.count(reason := reason_of(error), self.session, str(error))
        if reason is not Reason.FOREIGN:
            self.reply(replies.error(error.code, str(error)))
            self._farewell = Farewell(self._transport)
        self.leave()
        self._is_closing = True

    def _cut_slow(self) -> None:
        """End a connection whose peer does not take what it was sent."""
        self.server.refusals.count(Reason.SLOW_READER, self.session, "it does not read what it is sent")
        self._is_closing = True
        self._transport.abort()

    def _cut_broken(self) -> None:
        log.exception("a RESP connection failed", peer=self.session.address)
        self._is_closing = True
        self._outcomes.clear()
        self._transport.abort()
