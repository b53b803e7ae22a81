"""What a broker must do, in plain lists: what may be seen, and what a crash may take back.

    publish ─▶ appended ─begin_write─▶ landing ─end_write─▶ entries ─take─▶ held ─ack─▶ gone
                                                                ▲            │ nack, back, dack, disconnect
                                                                └────────────┘

`stored` is what the last commit wrote, `writing` what those under way write, the older one first: after a crash there
is one of these states, whole, and of what the consumers settled since then nothing is left.

A task is stored before it begins, and what it does with a message is stored together with how far it has come. So it is
enough to say what it has done in the end, whatever happens in between, as long as no comparison is made.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from miniqueue.broker.acts.orders import MessageAct

PLACES = ("front", "delayed", "back", "log")
#: How long a second group that ends with its last reader stays without one, and the minimum time after a startup.
IDLE_SECONDS = 5.0
STARTUP_SECONDS = 60.0


@dataclass(eq=False)
class Entry:
    """A message at its place; `key` sorts within it. What is handed out is an entry of its own."""

    place: str
    key: tuple[int, ...]
    payload: bytes
    returns: Counter[str] = field(default_factory=Counter)  # how often it came back, by cause
    failure: bytes = b""  # the last reason that a NACK gave
    ends_at: float = inf  # when the lease ends, of what is handed out; in seconds of the clock that only goes on


@dataclass(eq=False)
class Group:
    """A second group of a topic, which ends by itself, and of which all that is given is acknowledged with it.

    It ends with its last reader, or, if it has an idle time of its own, when it had no reader for that time; that also
    counts before its first reader.
    """

    unread: list[bytes] = field(default_factory=list)
    own_idle_seconds: float | None = None
    is_expected: bool = False  # the group stays until its first reader comes, and none has come yet
    was_read: bool = True  # whether a reader came since the last tick, or the group is new
    unread_seconds: float = 0.0

    def tick(self, seconds: float) -> None:
        self.unread_seconds = 0.0 if self.was_read else self.unread_seconds + seconds
        self.is_expected, self.was_read = self.is_expected and not self.was_read, False

    def is_over(self, running_seconds: float) -> bool:
        if self.own_idle_seconds is not None:
            return self.unread_seconds >= self.own_idle_seconds
        return not self.is_expected and self.unread_seconds >= IDLE_SECONDS and running_seconds >= STARTUP_SECONDS


@dataclass(eq=False)
class Topic:
    entries: list[Entry] = field(default_factory=list)
    held: list[Entry] = field(default_factory=list)
    appended: list[bytes] = field(default_factory=list)
    landing: list[tuple[int, list[bytes]]] = field(default_factory=list)  # each with the number of its write
    tail: int = 0
    serial: int = 0
    unique: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)  # unique keys and numbers, by payload
    is_paused: bool = False  # its group is, the second one never
    group: Group | None = None  # the second one
    tasks: list[tuple[MessageAct, bytes]] = field(default_factory=list)  # to do this with what contains that

    @property
    def next_seq(self) -> int:
        return self.tail + sum(len(payloads) for _, payloads in self.landing) + len(self.appended)

    def land(self, write: float) -> None:
        """What was written can be read, up to this write."""
        while self.landing and self.landing[0][0] <= write:
            _, payloads = self.landing.pop(0)
            self.entries += [Entry("log", (self.tail + n,), payload) for n, payload in enumerate(payloads)]
            self.tail += len(payloads)
            if self.group is not None:
                self.group.unread += payloads

    def next(self, horizon_ms: int) -> Entry | None:
        """What comes next: front, due, back when all before it was read, log; nothing while the group is paused."""
        if self.is_paused:
            return None
        unread = [entry.key[0] for entry in self.entries if entry.place == "log"]
        limits = {"delayed": horizon_ms, "back": min(unread, default=self.tail)}
        ready = [entry for entry in self.entries if entry.key[0] <= limits.get(entry.place, entry.key[0])]
        return min(ready, key=lambda entry: (PLACES.index(entry.place), entry.key), default=None)

    def take(self, entry: Entry) -> Entry:
        self.entries.remove(entry)
        self.held.append(replace(entry))
        return self.held[-1]

    def put_back(self, entry: Entry, place: str, cause: str, due_at_ms: int = 0, reason: bytes = b"") -> None:
        self.held.remove(entry)
        self.serial += 1
        key = {"front": (-self.serial,), "back": (self.tail, self.serial), "delayed": (due_at_ms, self.serial)}[place]
        returns, failure = entry.returns + Counter([cause]), reason or entry.failure
        self.entries.append(Entry(place, key, entry.payload, returns, failure))

    def owner(self, key: bytes) -> Entry | None:
        """Return the message that has a unique key, of those that can be read."""
        entries = [*self.entries, *self.held]
        return next((entry for entry in entries if self.unique.get(entry.payload, (b"",))[0] == key), None)

    def remove(self, entry: Entry) -> None:
        """A message that waits is deleted, or replaced, in all groups."""
        self.entries.remove(entry)
        if self.group is not None and entry.payload in self.group.unread:
            self.group.unread.remove(entry.payload)

    def move(self, entry: Entry, place: str, due_at_ms: int = 0) -> None:
        """An administrator moves a message that waits, to the front or to another due time; that is no return."""
        self.entries.remove(entry)
        self.serial += 1
        key = {"front": (-self.serial,), "delayed": (due_at_ms, self.serial)}[place]
        self.entries.append(Entry(place, key, entry.payload, entry.returns, entry.failure))

    def end_tasks(self) -> None:
        """End all tasks; no message is held, and no message that is moved to the front was delayed."""
        tasks, self.tasks = self.tasks, []
        for act, part in tasks:
            chosen = [entry for entry in sorted(self.entries, key=_scanned) if part in entry.payload]
            for entry in reversed(chosen):
                if act is MessageAct.DELETE:
                    self.remove(entry)
                else:
                    self.move(entry, "front")
            if act is MessageAct.DELETE and self.group is not None:
                self.group.unread = [payload for payload in self.group.unread if part not in payload]

    def as_stored(self) -> "Topic":
        """What a restart finds: leases are not stored, what was held is where it was."""
        entries, landing, tasks = self.entries + self.held, list(self.landing), list(self.tasks)
        group = self.group and Group(list(self.group.unread), self.group.own_idle_seconds, was_read=False)
        topic = replace(self, entries=entries, held=[], appended=[], landing=landing, tasks=tasks, group=group)
        topic.land(inf)
        return topic


def _scanned(entry: Entry) -> tuple[object, ...]:
    """The order in which a task comes by: front, delayed, then log and back as they come after each other."""
    is_ahead = entry.place in ("front", "delayed")
    return not is_ahead, PLACES.index(entry.place) if is_ahead else 0, entry.key[0], entry.place == "log", entry.key


@dataclass(eq=False)
class Request:
    """Something to be answered when it is durable; `numbers` are those of its messages."""

    numbers: Sequence[int] = ()
    answer: str | None = None
    changes_something: bool = True


class Schedule(NamedTuple):
    """What has one tick left."""

    due_at_ms: int
    name: bytes
    topic: bytes
    payload: bytes


class Write(NamedTuple):
    """What the store will hold, and who is answered then."""

    number: int
    topics: dict[bytes, Topic]
    schedules: list[Schedule]
    requests: list[Request]


@dataclass
class Model:
    topics: dict[bytes, Topic] = field(default_factory=dict)
    stored: dict[bytes, Topic] = field(default_factory=dict)
    schedules: list[Schedule] = field(default_factory=list)
    stored_schedules: list[Schedule] = field(default_factory=list)
    writing: list[Write] = field(default_factory=list)
    write_count: int = 0
    open_requests: list[Request] = field(default_factory=list)
    horizon_ms: int = 0
    is_read_only: bool = False
    events: list[tuple[str, bytes]] = field(default_factory=list)  # not reported yet: the type, and the topic
    described: dict[bytes, object] = field(default_factory=dict)  # key and headers, by payload, of what has any
    ticked_at: float = 0.0
    running_seconds: float = 0.0

    def publish(self, *parts: tuple[bytes, list[bytes]]) -> Request:
        """Publish to some topics, with one commit."""
        if self.is_read_only:
            return Request(range(sum(len(payloads) for _, payloads in parts)), "READONLY")
        numbers = list[int]()
        for name, payloads in parts:
            self.events += [("topic-created", name)] if name not in self.topics else []
            topic = self.topics.setdefault(name, Topic())
            numbers += range(topic.next_seq, topic.next_seq + len(payloads))
            topic.appended += payloads
        return self._ask(numbers)

    def publish_unique(self, name: bytes, payload: bytes, key: bytes, *, is_replacing: bool) -> Request | int:
        """Publish with a unique key while nothing is uncommitted; return the number of the first if it is a duplicate.

        It replaces a message that waits, and no other.
        """
        topic = self.topics.get(name, Topic())
        owner = topic.owner(key)
        if owner is not None and (owner in topic.held or not is_replacing):
            return topic.unique[owner.payload][1]
        if owner is not None:
            topic.remove(owner)
        request = self.publish((name, [payload]))
        self.topics[name].unique[payload] = key, request.numbers[0]
        return request

    def delete(self, name: bytes) -> Request:
        if self.is_read_only:
            return Request(answer="READONLY")
        existed = self.topics.pop(name, None) is not None
        self.events += [("topic-deleted", name)] if existed else []
        return self._ask(changes_something=existed)

    def pause(self, name: bytes, *, is_paused: bool) -> Request:
        if self.is_read_only:
            return Request(answer="READONLY")
        topic = self.topics[name]
        was_paused, topic.is_paused = topic.is_paused, is_paused
        return self._ask(changes_something=was_paused != is_paused)

    def begin_task(self, name: bytes, act: MessageAct, part: bytes) -> Request:
        """Act on all messages that contain `part`, at `end_tasks`."""
        self.topics[name].tasks.append((act, part))
        return self._ask()

    def end_tasks(self) -> None:
        for topic in self.topics.values():
            topic.end_tasks()

    def tick(self, now_ms: int, now: float) -> None:
        """What is due comes, schedules publish, and groups end; `now` only grows."""
        seconds, self.ticked_at, self.horizon_ms = now - self.ticked_at, now, now_ms
        self.running_seconds += seconds
        for topic in self.topics.values() if not self.is_read_only else ():
            if topic.group is not None:
                topic.group.tick(seconds)
                if topic.group.is_over(self.running_seconds):
                    topic.group = None
        self._publish_due()

    def _publish_due(self) -> None:
        due = sorted(schedule for schedule in self.schedules if schedule.due_at_ms <= self.horizon_ms)
        self.schedules = [schedule for schedule in self.schedules if schedule not in due]
        for _, _, topic, payload in due:
            self.publish((topic, [payload]))

    def _ask(self, numbers: Sequence[int] = (), *, changes_something: bool = True) -> Request:
        self.open_requests.append(Request(numbers, changes_something=changes_something))
        return self.open_requests[-1]

    def rest(self) -> None:
        """Nothing can continue now: requests that changed nothing are answered."""
        if not self.writing:
            for request in self.open_requests:
                request.answer = None if request.changes_something else "OK"
            self.open_requests = [request for request in self.open_requests if request.answer is None]

    def begin_write(self) -> None:
        self.write_count += 1
        for topic in self.topics.values():
            topic.landing.append((self.write_count, topic.appended))
            topic.appended = []
        topics, schedules = as_stored(self.topics), list(self.schedules)
        self.writing.append(Write(self.write_count, topics, schedules, self.open_requests))
        self.open_requests = []

    def end_write(self) -> None:
        write = self.writing.pop(0)
        self.stored, self.stored_schedules = write.topics, write.schedules
        for topic in self.topics.values():
            topic.land(write.number)
        for request in write.requests:
            request.answer = "OK"

    def fail_write(self, *, is_kept: bool) -> None:
        """Only the model knows the outcome; what follows the write that failed is not written."""
        for write in self.writing:
            for request in write.requests:
                request.answer = "UNKNOWN"
        for request in self.open_requests:
            request.answer = "READONLY"
        self.lose_memory(self.writing[:is_kept])
        self.is_read_only = True
        self.events.append(("store-failed", b""))

    def open(self, now_ms: int, now: float) -> None:
        """Open the store, at a start or after a failure: due messages are found, and tasks continue."""
        self.events += [("store-recovered", b"")] if self.is_read_only else []
        self.is_read_only = False
        self.horizon_ms = now_ms
        self.ticked_at, self.running_seconds = now, 0.0
        self.end_tasks()
        self._publish_due()

    def store_all(self) -> None:
        """Store everything, as a broker does when it stops."""
        self.stored, self.stored_schedules = as_stored(self.topics), list(self.schedules)

    def lose_memory(self, kept: Sequence[Write] = ()) -> None:
        """Keep only what was stored, and the writes in progress that were kept."""
        if kept:
            self.stored, self.stored_schedules = kept[-1].topics, kept[-1].schedules
        self.writing, self.open_requests = [], []
        self.topics, self.schedules = as_stored(self.stored), list(self.stored_schedules)


def as_stored(topics: dict[bytes, Topic]) -> dict[bytes, Topic]:
    return {name: topic.as_stored() for name, topic in topics.items()}
