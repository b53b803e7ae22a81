"""The replies of one RESP connection: they leave in the order of their commands.

    _outcomes:  [commit, +OK ×32] [–, +PONG] [commit, ids] …        what waits for a commit holds back all after it
                      └─ done? ─▶ write what is ready, up to the next that waits

Does not know what a command is. What has not been handed to the transport is counted, and so is what has not been
committed; the connection reads no more from a peer that has too much of either, or that does not take its replies.
"""

import asyncio
from abc import abstractmethod
from collections import deque
from typing import Protocol

from miniqueue.broker import Commit
from miniqueue.server.resp_backlog import Backlog
from miniqueue.server.resp_farewell import Farewell
from miniqueue.wire import resp_replies as replies

#: Above this much published and not yet committed, a connection is not read from.
MAX_UNCOMMITTED_BYTES = 4 << 20
#: What a command counts that waits for its commit, beside its messages and its reply, which may be empty and short.
WAITING_BYTES = 256
#: Above this much in replies that have not been handed to the transport, no more commands are carried out.
MAX_UNSENT_BYTES = 1 << 20
#: Above this much behind a command that waits, it waits no longer: its connection could not be listened to any more.
MAX_KEPT_BYTES = 64 << 10


class Waiting(Protocol):
    """A command that may wait for long, and need not; it waits no longer when the peer sends no more.

    A socket that was closed looks like one of which a half was closed, so a peer that sends no more may be gone: it
    gets what was there when it asked, and no messages that come later; and a consumer must not be told that its reply
    has arrived there.
    """

    def give_up(self) -> None:
        """Have it answered now."""
        ...

    def wait_no_longer(self) -> None:
        """Have it answered now, or as soon as that is read which was there before."""
        ...


class Output(asyncio.Protocol):
    """Half of a connection: what leaves it.

    Args:
      backlog: watches what the peer does not take.
    """

    _transport: asyncio.Transport

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self._outcomes: deque[tuple[Commit | None, bytes, int]] = deque()
        self._awaited: Commit | None = None
        self._uncommitted_bytes = 0
        self._unsent_bytes = 0
        self._is_peer_slow = False
        self._is_held = False
        self._waiting: Waiting | None = None
        self._kept_bytes = 0
        self._is_closing = False
        self._farewell: Farewell | None = None

    @abstractmethod
    def _adjust_reading(self) -> None:
        """Read on, or not, as the replies are now."""

    @abstractmethod
    def _cut_broken(self) -> None:
        """End this connection, and answer nothing more, for the fault that is being handled."""

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
        self._backlog.watch(self._transport)
        self._adjust_reading()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._is_peer_slow = False
        self._backlog.forget()
        self._adjust_reading()

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

    def note_uncommitted(self, size_bytes: int) -> None:
        """Count payloads and attributes that the next `wait_for` waits for."""
        self._uncommitted_bytes += size_bytes

    def wait_for(self, commit: Commit, reply: bytes, times: int = 1) -> None:
        """Send `reply`, `times` over, when `commit` is done, or its error as often."""
        self._outcomes.append((commit, reply, times))
        self._uncommitted_bytes += WAITING_BYTES + len(reply) * times
        if self._awaited is not commit:
            self._awaited = commit
            commit.add_listener(self.flush)

    def flush(self) -> None:
        """Write the replies that are ready; a fault ends this connection, and does not reach who answers others too."""
        try:
            outcomes = self._outcomes
            if len(outcomes) == 1:  # as a rule, of who waits for each reply
                commit, reply, times = outcomes[0]
                if commit is None or (commit.is_done and commit.error is None):
                    outcomes.clear()
                    self._transport.write(reply * times)
                    self._all_answered()
                    return
            if ready := self._take_ready():
                self._transport.write(b"".join(ready))
            if not outcomes:
                self._all_answered()
        except Exception:
            self._cut_broken()

    def _take_ready(self) -> list[bytes]:
        outcomes, ready = self._outcomes, list[bytes]()
        while outcomes:
            commit, reply, times = outcomes[0]
            if commit is not None:
                if not commit.is_done:
                    break
                if commit.error is not None:
                    reply = replies.error(commit.error.code, str(commit.error))
            ready.append(reply * times)
            outcomes.popleft()
        return ready

    def _all_answered(self) -> None:
        self._uncommitted_bytes = self._unsent_bytes = 0
        if self._is_closing:
            (self._farewell or self._transport).close()
        elif not self._transport.is_reading():
            self._adjust_reading()

    def hold(self, waiting: Waiting | None = None) -> None:
        """Carry out nothing more until `release`: the reply to a command is being made elsewhere.

        While a command waits for something, the peer is read from, to hear it leave.
        """
        self._is_held = True
        self._waiting = waiting
        self._kept_bytes = 0

    @property
    def is_blocked(self) -> bool:
        """Whether a command waits for messages or for a reply."""
        return self._waiting is not None

    @property
    def is_closing(self) -> bool:
        """Whether nothing more is to be replied."""
        return self._is_closing

    def release(self, reply: bytes) -> None:
        """Send the reply that was waited for, empty where it has been queued already, and go on."""
        self._is_held = False
        self._waiting = None
        if not self._is_closing:
            if reply:
                self.reply(reply)
            self.flush()
            self._adjust_reading()

    def give_up_waiting(self) -> None:
        """Have the command answered that waits, if there is one."""
        if self._waiting is not None:
            self._waiting.give_up()

    def end_waiting(self) -> None:
        """Have the command that waits, if there is one, wait for nothing that is not there yet."""
        if self._waiting is not None:
            self._waiting.wait_no_longer()

    def _note_kept(self, size_bytes: int) -> None:
        """Count what came while the connection is held."""
        self._kept_bytes += size_bytes
        if self._kept_bytes > MAX_KEPT_BYTES:
            self.give_up_waiting()

    def _pause_reading(self) -> None:
        """Read no more, but to hear the peer leave."""
        if self._waiting is None:
            self._transport.pause_reading()
        elif not self._transport.is_reading():
            self._transport.resume_reading()

    def close_when_sent(self) -> None:
        """Read no more, and close when the last reply has been sent."""
        self._is_closing = True
        self.flush()

    def close_soon(self) -> None:
        """As `close_when_sent`, but what the peer does not take is not waited for."""
        self.close_when_sent()
        if self._is_peer_slow:
            self._transport.abort()
