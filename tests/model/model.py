"""What a broker must do, in plain lists: what may be seen, and what a crash may take back.

    publish ─▶ appended ─begin_write─▶ landing ─end_write─▶ entries ─take─▶ held ─ack─▶ gone
                                                                ▲            │ nack, back, dack, disconnect
                                                                └────────────┘

`stored` is what the last commit wrote, `writing` what the one under way writes: after a crash there is one of the
two, whole, and of what the consumers settled since then nothing is left.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

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
    landing: list[bytes] = field(default_factory=list)
    tail: int = 0
    serial: int = 0

    @property
    def next_seq(self) -> int:
        return self.tail + len(self.landing) + len(self.appended)

    def land(self) -> None:
        """What was written can be read."""
        self.entries += [Entry("log", (self.tail + n,), payload) for n, payload in enumerate(self.landing)]
        self.tail += len(self.landing)
        self.landing = []

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
        topic.land()
        return topic


@dataclass(eq=False)
class Request:
    """Something to be answered when it is durable; `numbers` are those of its messages."""

    numbers: range = range(0)
    answer: str | None = None
    changes_something: bool = True


@dataclass
class Model:
    topics: dict[bytes, Topic] = field(default_factory=dict)
    stored: dict[bytes, Topic] = field(default_factory=dict)
    writing: dict[bytes, Topic] | None = None
    open_requests: list[Request] = field(default_factory=list)
    written_requests: list[Request] = field(default_factory=list)
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
        if self.writing is None:
            for request in self.open_requests:
                request.answer = None if request.changes_something else "OK"
            self.open_requests = [request for request in self.open_requests if request.answer is None]

    def begin_write(self) -> None:
        for topic in self.topics.values():
            topic.landing, topic.appended = topic.appended, []
        self.writing = as_stored(self.topics)
        self.written_requests, self.open_requests = self.open_requests, []

    def end_write(self) -> None:
        assert self.writing is not None
        self.stored, self.writing = self.writing, None
        for topic in self.topics.values():
            topic.land()
        for request in self.written_requests:
            request.answer = "OK"

    def fail_write(self, *, is_kept: bool) -> None:
        """The outcome is unknown to everybody but us."""
        for request in self.written_requests:
            request.answer = "UNKNOWN"
        for request in self.open_requests:
            request.answer = "READONLY"
        self.lose_memory(is_kept=is_kept)
        self.is_read_only = True

    def lose_memory(self, *, is_kept: bool) -> None:
        """There is what was stored, with the commit under way or without it."""
        if is_kept and self.writing is not None:
            self.stored = self.writing
        self.writing, self.open_requests, self.written_requests = None, [], []
        self.topics = as_stored(self.stored)


def as_stored(topics: dict[bytes, Topic]) -> dict[bytes, Topic]:
    return {name: topic.as_stored() for name, topic in topics.items()}
