"""Notices: what the broker reports of itself, to the clients that listen at the time (`EVENTS`, `GET /events`).

    a part of the broker ─ report, count ─▶ Notices ─▶ each Listener that wants it and may see it ─▶ buffer ─▶ `hear`
                                               └ no client listens: nothing    the buffer is full ─▶ lost, and counted

There is no backlog: a listener gets what happens after it has begun. Clients call notices events; here, events are
calls between parts of the broker (`commit.events`). What can happen often, such as dead letters, is counted, and
reported once a second for each topic. A listener has a buffer of limited size, which is charged to its client; if the
client does not read, notices are lost, and the next one that it gets says how many.

With several processes, each reports what happens to the topics that it owns, and the streams are merged.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from miniqueue.broker.runtime.accounts import MemoryAccount, Purpose
from miniqueue.broker.runtime.clock import Clock
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.errors import LimitReachedError
from miniqueue.errors.requests import InvalidOptionError

#: Maximum number and size of the notices that wait for a client to read.
MAX_WAITING: Final = 1000
MAX_WAITING_BYTES: Final = 256 << 10
#: Maximum number of topics, each with a group, of which frequent notices are counted in a second.
MAX_COUNTED: Final = 1000
#: Maximum number of clients that listen: each notice is passed on to all of them at once.
MAX_LISTENERS: Final = 1000
#: Maximum number of times that one event-loop iteration passes on what was counted, to all listeners together.
MAX_PASSED_IN_TURN: Final = 10_000
#: The memory of a notice without its texts, about.
NOTICE_BYTES: Final = 500


class NoticeKind(StrEnum):
    """The kinds of notices, by the names that clients use."""

    TOPIC_CREATED = "topic-created"
    TOPIC_CHANGED = "topic-changed"
    TOPIC_DELETED = "topic-deleted"
    PAUSED = "paused"
    RESUMED = "resumed"
    GROUP_CREATED = "group-created"
    GROUP_MOVED = "group-moved"
    GROUP_DELETED = "group-deleted"
    MEMBER_JOINED = "member-joined"
    MEMBER_LEFT = "member-left"
    DEAD_LETTER = "dead-letter"
    TRANSFER_REFUSED = "transfer-refused"
    LIMIT_REACHED = "limit-reached"
    SCHEDULE_SET = "schedule-set"
    SCHEDULE_DELETED = "schedule-deleted"
    USERS_RELOADED = "users-reloaded"
    STORE_FAILED = "store-failed"
    STORE_RECOVERED = "store-recovered"
    LOST = "lost"


#: The value of a detail.
Detail = str | int | list[str]
#: What is counted: the kind, the topic and the group.
_Key = tuple[NoticeKind, bytes, str]
#: How often it happened, and the details of the last time.
_Count = tuple[int, Mapping[str, Detail]]


class Notice(NamedTuple):
    """Something that has happened.

    Attributes:
      number: the number of notices since startup, with this one; gaps are notices that the client does not get.
      kind: what has happened.
      at_ms: when, in ms since 1970.
      topic: the topic that it concerns; b"" for the broker as a whole.
      details: what else is known, by name.
    """

    number: int
    kind: NoticeKind
    at_ms: int
    topic: bytes
    details: Mapping[str, Detail]

    @property
    def size_bytes(self) -> int:
        """The memory of the notice, about."""
        return NOTICE_BYTES + len(self.topic) + sum(len(str(value)) for value in self.details.values())


def parse_kinds(words: Iterable[bytes]) -> frozenset[NoticeKind]:
    """Return the kinds that a client names, all if it names none; raises InvalidOptionError."""
    try:
        named = frozenset(NoticeKind(word.decode("utf-8", "replace").lower()) for word in words)
    except ValueError as exc:
        raise InvalidOptionError(f"a type of event is one of {', '.join(NoticeKind)}") from exc
    return named or frozenset(NoticeKind)


class Listener:
    """A client that listens: what it wants and may see, and what it has not read yet.

    Args:
      kinds: the kinds that it wants; it always gets `LOST`.
      sees: whether it may see the notices of a topic; None stands for those of the broker as a whole.
      account: pays for the buffer.
      hear: called in a later event-loop iteration when there is something to take.
    """

    def __init__(
        self,
        kinds: frozenset[NoticeKind],
        sees: Callable[[bytes | None], bool],
        account: MemoryAccount | None,
        hear: Callable[[], None],
    ) -> None:
        self._kinds = kinds
        self._sees = sees
        self._account = account
        self._hear = hear
        self._waiting: list[Notice] = []
        self._waiting_bytes = 0
        self._lost_count = 0
        self._is_called = False

    @property
    def has_news(self) -> bool:
        """Whether there is something to take."""
        return bool(self._waiting or self._lost_count)

    def add(self, notice: Notice) -> None:
        """Keep a notice for the client, if it wants it and may see it and there is room."""
        if notice.kind not in self._kinds or not self._sees(notice.topic or None):
            return
        size_bytes = notice.size_bytes
        is_full = len(self._waiting) >= MAX_WAITING or self._waiting_bytes + size_bytes > MAX_WAITING_BYTES
        if is_full or (self._account is not None and self._account.first_over() is not None):
            self._lost_count += 1
        else:
            self._waiting.append(notice)
            self._charge(size_bytes)
        self.call()

    def call(self) -> None:
        """Call the client, once: not in the middle of what the broker does now."""
        if not self._is_called:
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._call)

    def _call(self) -> None:
        self._is_called = False
        if self.has_news:
            self._hear()

    def take(self, now_ms: int) -> list[Notice]:
        """Return the notices that wait; the last one says how many were lost after them, if any were."""
        taken, self._waiting = self._waiting, []
        self._charge(-self._waiting_bytes)
        if self._lost_count:
            taken.append(Notice(0, NoticeKind.LOST, now_ms, b"", {"count": self._lost_count}))
            self._lost_count = 0
        return taken

    def clear(self) -> None:
        """Forget what waits: the client has left."""
        self._waiting, self._lost_count = [], 0
        self._charge(-self._waiting_bytes)
        self._hear = _nothing  # it refers to the connection

    def _charge(self, size_bytes: int) -> None:
        self._waiting_bytes += size_bytes
        if self._account is not None and size_bytes:
            self._account.add(Purpose.EVENTS, size_bytes)


class Notices:
    """Passes notices to the clients that listen.

    Args:
      clock: returns the time of a notice.

    Attributes:
      is_heard: whether a client listens; callers check it before a report that is expensive to make.
    """

    def __init__(self, clock: Clock) -> None:
        self.now_ms = clock.now_ms
        self.is_heard = False
        self._listeners: dict[Listener, None] = {}
        self._number = 0
        self._counted: dict[_Key, _Count] = {}

    def listen(self, listener: Listener) -> None:
        """Add a listener, which gets what happens from now on; raises LimitReachedError."""
        if len(self._listeners) >= MAX_LISTENERS:
            raise LimitReachedError(f"too many clients listen to events; at most {MAX_LISTENERS}")
        self._listeners[listener] = None
        self.is_heard = True

    def leave(self, listener: Listener) -> None:
        """Remove a listener, and what waits for it."""
        self._listeners.pop(listener, None)
        listener.clear()
        self.is_heard = bool(self._listeners)
        if not self.is_heard:
            self._counted.clear()

    def report(self, kind: NoticeKind, topic: bytes = b"", **details: Detail) -> None:
        """Report what the current actor has done to a topic; b"" stands for the broker as a whole."""
        if self.is_heard:
            by = bytes(CURRENT_ACTOR.get()).decode("utf-8", "replace")
            self._pass_on(kind, topic, details | ({"by": by} if by else {}))

    def count(self, kind: NoticeKind, topic: bytes, count: int, group: str = "", **details: Detail) -> None:
        """Count what can happen often; the next tick reports the number, and the details of the last time."""
        if not self.is_heard:
            return
        key = kind, topic, group
        if key not in self._counted and len(self._counted) >= MAX_COUNTED:
            key = kind, b"", ""
            details = {}
        before = self._counted.get(key, (0, details))[0]
        known = {"group": key[2], **details} if key[2] else details
        self._counted[key] = before + count, known

    def tick(self) -> None:
        """Pass on what was counted, and call the listeners that could not read before."""
        counted, self._counted = self._counted, {}
        self._pass_on_counted(iter(counted.items()))
        for listener in self._listeners:
            if listener.has_news:
                listener.call()

    def _pass_on_counted(self, counted: Iterator[tuple[_Key, _Count]]) -> None:
        """Pass on what was counted, the rest of it in the next iterations."""
        room = max(1, MAX_PASSED_IN_TURN // max(1, len(self._listeners)))
        for (kind, topic, _), (count, details) in islice(counted, room):
            room -= 1
            self._pass_on(kind, topic, {"count": count, **details})
        if not room and self.is_heard:
            asyncio.get_running_loop().call_soon(self._pass_on_counted, counted)

    def _pass_on(self, kind: NoticeKind, topic: bytes, details: Mapping[str, Detail]) -> None:
        self._number += 1
        notice = Notice(self._number, kind, self.now_ms(), topic, details)
        for listener in self._listeners:
            listener.add(notice)


def _nothing() -> None:
    """Do nothing: the client has left."""
