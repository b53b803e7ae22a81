"""What a topic must do, in plain lists."""

from dataclasses import dataclass, field

PLACES = ("front", "delayed", "back", "log")


@dataclass
class Entry:
    """A message at its place; `key` sorts within it."""

    place: str
    key: tuple[int, ...]
    payload: bytes
    returns: int = 0


@dataclass
class ModelTopic:
    entries: list[Entry] = field(default_factory=list)
    held: list[Entry] = field(default_factory=list)
    tail: int = 0
    serial: int = 0

    def publish(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            self.entries.append(Entry("log", (self.tail,), payload))
            self.tail += 1

    def take(self, horizon_ms: int) -> Entry | None:
        """Hand out what comes next: front, due, back when all before it was read, log."""
        unread = [entry.key[0] for entry in self.entries if entry.place == "log"]
        read_up_to = min(unread, default=self.tail)
        eligible = [
            entry
            for entry in self.entries
            if not (entry.place == "delayed" and entry.key[0] > horizon_ms)
            and not (entry.place == "back" and entry.key[0] > read_up_to)
        ]
        if not eligible:
            return None
        entry = min(eligible, key=lambda entry: (PLACES.index(entry.place), entry.key))
        self.entries.remove(entry)
        self.held.append(entry)
        return entry

    def ack(self, entry: Entry) -> None:
        self.held.remove(entry)

    def put_back(self, entry: Entry, place: str, due_at_ms: int = 0) -> None:
        self.held.remove(entry)
        self.serial += 1
        key = {"front": (-self.serial,), "back": (self.tail, self.serial), "delayed": (due_at_ms, self.serial)}[place]
        self.entries.append(Entry(place, key, entry.payload, entry.returns + 1))

    def restart(self) -> None:
        """Leases are not stored: what was held is where it was."""
        self.entries += self.held
        self.held = []
