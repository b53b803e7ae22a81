"""What a broker must do, in plain lists: what may be seen, and what a crash may take back.

    publish ─▶ appended ─begin_write─▶ landing ─end_write─▶ entries ─take─▶ held ─ack─▶ gone
                                                                ▲            │ nack, back, dack, disconnect
                                                                └────────────┘

`stored` is what the last commit wrote, `writing` what those under way write, the older one first: after a crash there
is one of these states, whole, and of what the consumers settled since then nothing is left.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

PLACES = ("front", "delayed", "back", "log")


@dataclass(eq=False)
class Entry:
    """A message at its place; `key` sorts within it. What is handed out is an entry of its own."""

    place: str
    key: tuple[int, ...]
    payload: bytes
    returns: Counter[str] = field(default_factory=Counter)  # how often it came back, by cause


@dataclass(eq=False)
class Topic:
    entries: list[Entry] = field(default_factory=list)
    held: list[Entry] = field(default_factory=list)
    appended: list[bytes] = field(default_factory=list)
    landing: list[tuple[int, list[bytes]]] = field(default_factory=list)  # with the number of the write
    tail: int = 0
    serial: int = 0

    @property
    def next_seq(self) -> int:
        return self.tail + sum(len(payloads) for _, payloads in self.landing) + len(self.appended)

    def land(self, write: float) -> None:
        """What was written can be read, up to this write."""
        while self.landing and self.landing[0][0] <= write:
            _, payloads = self.landing.pop(0)
            self.entries += [Entry("log", (self.tail + n,), payload) for n, payload in enumerate(payloads)]
            self.tail += len(payloads)

    def next(self, horizon_ms: int) -> Entry | None:
        """What comes next: front, due, back when all before it was read, log."""
        unread = [entry.key[0] for entry in self.entries if entry.place == "log"]
        limits = {"delayed": horizon_ms, "back": min(unread, default=self.tail)}
        ready = [entry for entry in self.entries if entry.key[0] <= limits.get(entry.place, entry.key[0])]
        return min(ready, key=lambda entry: (PLACES.index(entry.place), entry.key), default=None)

    def take(self, entry: Entry) -> Entry:
        self.entries.remove(entry)
        self.held.append(replace(entry))
        return self.held[-1]

    def put_back(self, entry: Entry, place: str, cause: str, due_at_ms: int = 0) -> None:
        self.held.remove(entry)
        self.serial += 1
        key = {"front": (-self.serial,), "back": (self.tail, self.serial), "delayed": (due_at_ms, self.serial)}[place]
        self.entries.append(Entry(place, key, entry.payload, entry.returns + Counter([cause])))

    def as_stored(self) -> "Topic":
        """What a restart finds: leases are not stored, what was held is where it was."""
        topic = Topic(self.entries + self.held, landing=list(self.landing), tail=self.tail, serial=self.serial)
        topic.land(inf)
        return topic


@dataclass(eq=False)
class Request:
    """Something to be answered when it is durable; `numbers` are those of its messages."""

    numbers: range = range(0)
    answer: str | None = None
    changes_something: bool = True


class Write(NamedTuple):
    """What the store will hold, and who is answered then."""

    number: int
    topics: dict[bytes, Topic]
    requests: list[Request]


@dataclass
class Model:
    topics: dict[bytes, Topic] = field(default_factory=dict)
    stored: dict[bytes, Topic] = field(default_factory=dict)
    writing: list[Write] = field(default_factory=list)
    write_count: int = 0
    open_requests: list[Request] = field(default_factory=list)
    horizon_ms: int = 0
    is_read_only: bool = False

    def publish(self, name: bytes, payloads: list[bytes]) -> Request:
        if self.is_read_only:
            return Request(range(len(payloads)), "READONLY")
        topic = self.topics.setdefault(name, Topic())
        first_seq = topic.next_seq
        topic.appended += payloads
        self.open_requests.append(Request(range(first_seq, topic.next_seq)))
        return self.open_requests[-1]

    def delete(self, name: bytes) -> Request:
        if self.is_read_only:
            return Request(answer="READONLY")
        existed = self.topics.pop(name, None) is not None
        self.open_requests.append(Request(changes_something=existed))
        return self.open_requests[-1]

    def rest(self) -> None:
        """Nothing can go on: what has nothing to write waits for nobody any more."""
        if not self.writing:
            for request in self.open_requests:
                request.answer = None if request.changes_something else "OK"
            self.open_requests = [request for request in self.open_requests if request.answer is None]

    def begin_write(self) -> None:
        self.write_count += 1
        for topic in self.topics.values():
            topic.landing.append((self.write_count, topic.appended))
            topic.appended = []
        self.writing.append(Write(self.write_count, as_stored(self.topics), self.open_requests))
        self.open_requests = []

    def end_write(self) -> None:
        write = self.writing.pop(0)
        self.stored = write.topics
        for topic in self.topics.values():
            topic.land(write.number)
        for request in write.requests:
            request.answer = "OK"

    def fail_write(self, *, is_kept: bool) -> None:
        """The outcome is unknown to everybody but us; what is behind the write that failed is not written."""
        for write in self.writing:
            for request in write.requests:
                request.answer = "UNKNOWN"
        for request in self.open_requests:
            request.answer = "READONLY"
        self.lose_memory(self.writing[:is_kept])
        self.is_read_only = True

    def lose_memory(self, kept: Sequence[Write] = ()) -> None:
        """There is what was stored, and what of the writes under way was kept."""
        if kept:
            self.stored = kept[-1].topics
        self.writing, self.open_requests = [], []
        self.topics = as_stored(self.stored)


def as_stored(topics: dict[bytes, Topic]) -> dict[bytes, Topic]:
    return {name: topic.as_stored() for name, topic in topics.items()}
