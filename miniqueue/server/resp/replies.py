"""The replies of one RESP connection: they leave in the order of their commands.

    outcomes:  [commit, +OK ×32] [–, +PONG] [commit, ids] …        what waits for a commit delays every reply after it
                     └─ done? ─▶ write what is ready, up to the next that waits

Counts what has not been handed to the transport, and what has not been committed: a connection that has too much of
either carries out no more commands. Knows no commands, and of the connection only the two functions it calls.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import Final

from miniqueue.broker import Commit
from miniqueue.errors import MiniqueueError
from miniqueue.wire import resp_replies as replies

#: Maximum size of what is published and not yet committed; with more, a connection is not read from.
MAX_UNCOMMITTED_BYTES = 4 << 20
#: What a command that waits for its commit counts, in addition to its messages and its reply, which can be empty and
#: short: a bound on the memory that such commands use.
WAITING_BYTES = 256
#: Maximum size of replies that have not been handed to the transport; with more, no commands are carried out.
MAX_UNSENT_BYTES = 1 << 20


class LateReply(Commit):
    """What a reply waits for that another process gives.

    Attributes:
      reply: the reply, or the replies; empty until then.
    """

    __slots__ = ("reply",)

    def __init__(self) -> None:
        super().__init__()
        self.reply = b""

    def give(self, reply: bytes) -> None:
        """Set the reply; it takes the place of an error, as no commit of this process has failed."""
        self.reply, self.is_done, self.error = reply, True, _GIVEN


class Several(bytes):
    """Replies to several commands, which wait for one commit: if it fails, each of them is its error.

    Attributes:
      reply_count: how many they are.
    """

    reply_count: int

    @classmethod
    def of(cls, replies: bytes, count: int) -> "Several":
        """Return replies that are joined."""
        several = cls(replies)
        several.reply_count = count
        return several


_GIVEN: Final = MiniqueueError("the reply is that of another process")


class ReplyQueue:
    """Sends replies in order, those to writes after their commit.

    Args:
      all_sent: called whenever no reply is left to send.
      broken: called when replies cannot be written, with the exception being handled; ends the connection.

    Attributes:
      transport: set when the connection is made, and when its client has gone.
      last_commit: the last commit of this process that a reply has waited for, done or not.
      unsent_bytes: size of the replies since the queue was last empty, without those that wait for a commit.
    """

    __slots__ = (
        "_all_sent",
        "_broken",
        "_max_unsent_bytes",
        "_outcomes",
        "_uncommitted_bytes",
        "last_commit",
        "transport",
        "unsent_bytes",
    )

    transport: asyncio.Transport

    def __init__(self, all_sent: Callable[[], None], broken: Callable[[], None]) -> None:
        self._all_sent = all_sent
        self._broken = broken
        self._outcomes: deque[tuple[Commit | None, bytes, int]] = deque()
        self.last_commit: Commit | None = None
        self._uncommitted_bytes = 0
        self._max_unsent_bytes: float = MAX_UNSENT_BYTES
        self.unsent_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether every reply has been handed to the transport."""
        return not self._outcomes

    @property
    def is_full(self) -> bool:
        """Whether so much waits that no more commands are to be carried out."""
        return self.unsent_bytes > self._max_unsent_bytes or self._uncommitted_bytes > MAX_UNCOMMITTED_BYTES

    def add(self, reply: bytes) -> None:
        """Queue a reply; `flush` sends it, after all replies before it."""
        self._outcomes.append((None, reply, 1))
        self.unsent_bytes += len(reply)

    def send(self, reply: bytes) -> None:
        """Send a reply now, after all replies before it."""
        if self._outcomes:
            self.add(reply)
            self.flush()
        else:  # past the queue: 68 instructions fewer
            self.transport.write(reply)

    def wait_for(self, commit: Commit, reply: bytes, times: int = 1, size_bytes: int = 0) -> None:
        """Send `reply`, repeated `times`, when `commit` is done; if it fails, its error as often.

        `size_bytes` is the size of the payloads and attributes in the commit.
        """
        self._outcomes.append((commit, reply, times))
        self._uncommitted_bytes += WAITING_BYTES + size_bytes + len(reply) * times
        if self.last_commit is not commit:
            self.last_commit = commit
            commit.add_listener(self.flush)

    def await_reply(self, size_bytes: int) -> LateReply:
        """Queue the reply to a command of this size that another process gives, and return what it is given to."""
        late = LateReply()
        self._outcomes.append((late, b"", 1))
        self._uncommitted_bytes += WAITING_BYTES + size_bytes
        return late

    def await_more(self, late: LateReply, size_bytes: int) -> bool:
        """Put the reply to a command of this size into `late`, too; return False if other replies come after that."""
        if not self._outcomes or self._outcomes[-1][0] is not late:
            return False
        self._uncommitted_bytes += WAITING_BYTES + size_bytes
        return True

    def give_out(self, late: Sequence[LateReply], texts: Sequence[bytes]) -> None:
        """Give replies to what waits for them, and send those that are next."""
        if len(self._outcomes) == len(late) == 1 and self._outcomes[0][0] is late[0]:  # fast path: one publisher
            self._outcomes.clear()
            self._uncommitted_bytes = self.unsent_bytes = 0
            self._send_last(texts[0])
            return
        for each, reply in zip(late, texts, strict=True):
            each.give(reply)
        self.flush()

    def _send_last(self, reply: bytes) -> None:
        try:
            self.transport.write(reply)
            self._all_sent()
        except Exception:
            self._broken()

    def withhold(self, outcome: Commit, reply: bytes) -> None:
        """Send `reply`, and what is queued after it, when `outcome` is done; if it fails, its error instead of `reply`.

        Until then no number of bytes stops the connection: the caller must bound them.
        """
        self._outcomes.append((outcome, reply, 1))
        self._max_unsent_bytes = inf
        outcome.add_listener(self._give_out)

    def drop_after(self, outcome: Commit) -> None:
        """Drop the replies that were queued after the one that waits for `outcome`."""
        while self._outcomes and self._outcomes[-1][0] is not outcome:
            self.unsent_bytes -= len(self._outcomes.pop()[1])

    def _give_out(self) -> None:
        self._max_unsent_bytes = MAX_UNSENT_BYTES
        self.flush()

    def flush_ready(self) -> bool:
        """Write the replies that are ready; return what `is_full` is then.

        If the first reply waits for a commit, that commit writes them.
        """
        if self._outcomes and ((commit := self._outcomes[0][0]) is None or commit.is_done):
            self.flush()
        return self.unsent_bytes > self._max_unsent_bytes or self._uncommitted_bytes > MAX_UNCOMMITTED_BYTES

    def flush(self) -> None:
        """Write the replies that are ready.

        A fault ends this connection and is not raised: the caller may be a commit that other connections wait for.
        """
        try:
            outcomes = self._outcomes
            if len(outcomes) == 1:  # fast path: a client that waits for each reply
                commit, reply, times = outcomes[0]
                if commit is None or (commit.is_done and commit.error is None):
                    outcomes.clear()
                    self.transport.write(reply * times)
                    self._uncommitted_bytes = self.unsent_bytes = 0
                    self._all_sent()
                    return
            if ready := self._take_ready():
                self.transport.write(b"".join(ready))
            if not outcomes:
                self._uncommitted_bytes = self.unsent_bytes = 0
                self._all_sent()
        except Exception:
            self._broken()

    def clear(self) -> None:
        """Drop all replies."""
        self._outcomes.clear()

    def close(self) -> None:
        """Drop all replies, and let go of the connection, which has ended."""
        self._outcomes.clear()
        self._all_sent = self._broken = _nothing

    def _take_ready(self) -> list[bytes]:
        outcomes, ready = self._outcomes, list[bytes]()
        while outcomes:
            commit, reply, times = outcomes[0]
            if commit is not None:
                if not commit.is_done:
                    break
                if isinstance(commit, LateReply):
                    reply = commit.reply
                elif commit.error is not None:
                    times = reply.reply_count if isinstance(reply, Several) else times
                    reply = _error(commit.error)
            ready.append(reply * times)
            outcomes.popleft()
        return ready


def _error(error: MiniqueueError) -> bytes:
    return replies.error(error.code, str(error))


def _nothing() -> None:
    """Do nothing: the connection has ended."""
