"""Results of calls: messages, groups, pages of a log, ids of publishes, schedules, redrives.

Values without behavior: nothing here refers to a connection or a reply.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Self


class Counts(NamedTuple):
    """How often a message was returned, by cause.

    Attributes:
      nacks: number of returns by NACK, or because the handler of a worker failed.
      backs: number of returns by BACK, to the back of the topic.
      dacks: number of returns by DACK, after a delay.
      timeouts: number of returns because a lease expired.
      disconnects: number of returns because the consumer of a stream disconnected.
    """

    nacks: int = 0
    backs: int = 0
    dacks: int = 0
    timeouts: int = 0
    disconnects: int = 0


NEVER_RETURNED = Counts()


class Origin(NamedTuple):
    """Where a dead letter came from, and why it is one.

    Attributes:
      topic: the topic that it came from.
      id: the id of the message in that topic.
      published_at_ms: when it was first published.
      died_at_ms: when it became a dead letter.
      reason: the reason: `max_deliveries`, or the text of the consumer that rejected it.
      counts: how often it had been returned, by cause.
      group: the group that dead-lettered it.
    """

    topic: str
    id: str
    published_at_ms: int
    died_at_ms: int
    reason: str
    counts: Counts = NEVER_RETURNED
    group: str = "default"


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was received, or found by PEEK or READ.

    Attributes:
      topic: the topic that it was read from.
      id: the id, `<partition>-<seq>`.
      payload: the payload.
      receipt: identifies this delivery when it is settled; "" if it is not leased.
      published_at_ms: when it was committed, in ms since 1970.
      deliveries: how often it was delivered, including this time.
      counts: how often it was returned, by cause.
      key: the key; b"": no key.
      headers: names and values in the publisher's order; a name can occur more than once.
      expires_at_ms: when it expires; 0: never.
      origin: where it came from, if it is a dead letter.
      reply_to: the address of the client that waits for a reply; "" if it is not a request.
      only_for: the only group that gets it; "": all groups.
      state: its state; only from PEEK.
      due_at_ms: when it is ready again; only from PEEK, for a delayed message.
      extra: attributes that only newer brokers send, by name, as received.
      failure: the reason of the last NACK that gave one; "": none.
    """

    topic: str
    id: str
    payload: bytes
    receipt: str = ""
    published_at_ms: int = 0
    deliveries: int = 0
    counts: Counts = NEVER_RETURNED
    key: bytes = b""
    headers: tuple[tuple[str, bytes], ...] = ()
    expires_at_ms: int = 0
    origin: Origin | None = None
    reply_to: str = ""
    only_for: str = ""
    state: str = ""
    due_at_ms: int = 0
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)
    failure: str = ""

    @property
    def text(self) -> str:
        """The payload as UTF-8; raises UnicodeDecodeError."""
        return self.payload.decode()

    def json(self) -> Any:  # noqa: ANN401 - any JSON
        """Return the payload as JSON; raises ValueError if it is none."""
        return json.loads(self.payload)

    @property
    def published_at(self) -> datetime:
        """When it was committed, in UTC."""
        return datetime.fromtimestamp(self.published_at_ms / 1000, timezone.utc)

    def header(self, name: str, default: str = "") -> str:
        """Return the first value of a header, as UTF-8; names are case-sensitive."""
        return next((value.decode("utf-8", "replace") for known, value in self.headers if known == name), default)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has happened in the broker.

    Attributes:
      type: what, such as `topic-created`; `lost` says how many events the client has missed.
      topic: the topic that it concerns; "" for the broker as a whole.
      at_ms: when, in ms since 1970.
      details: what else is known, by name: for example `by`, the client that did it.
    """

    type: str
    topic: str
    at_ms: int
    details: Mapping[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Group:
    """An independent reader of a topic.

    Attributes:
      name: the name of the group.
      lag: number of messages that it has not acknowledged.
      ready: number of those that can be delivered now.
      leased: number of those that consumers hold.
      delayed: number of those that are not due yet.
      acknowledged: number of messages acknowledged since the group was created, as for the next three.
      dropped: number of messages dropped: for lack of room, by a purge, or because they had expired.
      moved: number of messages moved to the dead letters.
      missed: number of messages whose space was reclaimed before the group read them.
      consumers: number of consumers of the group.
      waiting: number of consumers that wait for messages.
      position: the id of the first unsettled message of the log in each partition.
      paused: whether deliveries to it are paused, other than by a pause of the topic.
      ephemeral: whether it ends with its last consumer.
      idle_seconds: after this time without a reader it ends; 0: never.
      ack_rate_10s: messages that it acknowledged per second, in the last 10 s; None if that is not measured.
    """

    name: str
    lag: int = 0
    ready: int = 0
    leased: int = 0
    delayed: int = 0
    acknowledged: int = 0
    dropped: int = 0
    moved: int = 0
    missed: int = 0
    consumers: int = 0
    waiting: int = 0
    position: tuple[str, ...] = ()
    paused: bool = False
    ephemeral: bool = False
    idle_seconds: float = 0.0
    ack_rate_10s: float | None = None


class LeaseHolder(NamedTuple):
    """Who holds leases of receives, which belong to no connection; both names are None if the broker does not know.

    Attributes:
      user: the name of the user.
      address: the address of a client that has not authenticated.
      leased: number of messages.
      remaining_ms: the time until the first of these leases ends.
    """

    user: str | None
    address: str | None
    leased: int
    remaining_ms: int


class Seek(NamedTuple):
    """The effect of moving a group.

    Attributes:
      before: number of messages that the group still had to get.
      after: number of messages that it has to get now, or would have after a dry run.
    """

    before: int
    after: int


class Bounds(NamedTuple):
    """The offsets of a partition that can be read.

    Attributes:
      partition: the partition, as in the ids of its messages: `0`, or `0.high` for the messages of a priority.
      earliest: the earliest offset that can be read.
      end: the offset after the last message.
    """

    partition: str
    earliest: int
    end: int


@dataclass(frozen=True, slots=True)
class Page:
    """Consecutive messages of a partition.

    Attributes:
      messages: the messages, in the order of their offsets; none at the end of the log.
      next: the start offset of the next page.
      missed: number of messages between the requested offset and the first message that no longer exist.
      earliest: the earliest offset that can be read.
      end: the offset after the last message.
    """

    messages: tuple[Message, ...]
    next: int
    missed: int
    earliest: int
    end: int


def offset_of(message: Message) -> int:
    """Return the offset of a message in its partition."""
    return int(message.id.rpartition("-")[2])


class PublishedId(str):
    """The id of a published message, `<partition>-<seq>`: a str with an attribute.

    Attributes:
      is_duplicate: whether a message with the same dedup id or unique key existed; then nothing was stored, and this is
        the id of the existing message.
    """

    is_duplicate: bool

    def __new__(cls, message_id: str, *, is_duplicate: bool = False) -> "Self":
        """Return the id."""
        published = super().__new__(cls, message_id)
        published.is_duplicate = is_duplicate
        return published


class PublishedIds(list[str]):
    """The ids of messages that were published together, in order: a list with an attribute.

    Attributes:
      is_duplicate: whether messages with the same dedup id existed; then none was stored, and these are the ids of the
        existing messages.
    """

    def __init__(self, ids: Iterable[str] = (), *, is_duplicate: bool = False) -> None:
        super().__init__(ids)
        self.is_duplicate = is_duplicate


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule: a message that is published repeatedly, and when it is next.

    Attributes:
      name: the name of the schedule.
      topic: the topic to which its messages go.
      next_at_ms: when the next message is due, in ms since 1970; 0: never.
      cron: the rule for the times; "" if the schedule has an interval.
      zone: the time zone of the rule.
      every_seconds: the interval between messages; 0 if the schedule has a rule.
      missed: which messages that were due while the broker was down are published: `all`, `one`, `none`.
      payload: the payload of each message; None in a list of schedules.
      until_ms: no message is due later, in ms since 1970; None: no end.
      headers: names and values of each message.
      key: the key of each message; b"" for none.
      ttl_seconds: the time to live of each message; None: as the topic's settings say.
      priority: the priority of each message: `high`, `normal`, `low`.
    """

    name: str
    topic: str
    next_at_ms: int
    cron: str = ""
    zone: str = ""
    every_seconds: float = 0.0
    missed: str = "all"
    payload: bytes | None = None
    until_ms: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    key: bytes = b""
    ttl_seconds: float | None = None
    priority: str = "normal"

    @property
    def next_at(self) -> datetime:
        """When the next message is due, in UTC."""
        return datetime.fromtimestamp(self.next_at_ms / 1000, timezone.utc)


class HeldMessage(NamedTuple):
    """A message that is leased.

    Attributes:
      topic: the topic.
      partition: the partition, or lane, as its id begins.
      group: the group that leased it.
      id: the id, `<partition>-<seq>`.
      receipt: identifies this delivery when it is settled; of a stream, a number that only its connection can use.
      remaining_ms: the time until the lease expires; None: it lasts as long as its stream.
    """

    topic: str
    partition: str
    group: str
    id: str
    receipt: str
    remaining_ms: int | None


class Found(NamedTuple):
    """A page of a search.

    Attributes:
      messages: messages that meet the conditions.
      next: the position after which the next page begins; None if there are no more messages.
      scanned: number of messages that were read.
    """

    messages: tuple[Message, ...]
    next: str | None
    scanned: int


@dataclass(frozen=True, slots=True)
class Task:
    """An act on many messages.

    Attributes:
      id: its id.
      topic: the topic.
      act: `delete`, `front`, `redrive`, or `due`.
      status: `running`, `done`, `failed`, or `cancelled`.
      count: number of messages on which it has acted.
      scanned: number of messages that it has read.
      limit: maximum number of messages; None: all.
      per_second: maximum rate; None: unlimited.
      begun_at_ms: when it began.
      ended_at_ms: when it ended; None while it runs.
      error: the error because of which it failed, with its code first; "" if there was none.
    """

    id: str
    topic: str
    act: str
    status: str
    count: int
    scanned: int
    limit: int | None
    per_second: float | None
    begun_at_ms: int
    ended_at_ms: int | None
    error: str = ""


class Redriven(NamedTuple):
    """The result of a redrive.

    Attributes:
      moved: number of messages moved.
      remaining: number of messages that are ready in the topic and were not moved; None if it is not known.
      error: the error that stopped it, with its code first, such as `LIMIT the topic holds …`; "" if there was none.
    """

    moved: int
    remaining: int | None
    error: str = ""
