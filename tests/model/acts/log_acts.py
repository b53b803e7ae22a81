"""Reading a log, moving groups in it, and adding partitions, at random."""

from tests.model.acts.acting import Act, Acting
from tests.model.grounds import Ground
from tests.model.rules.facts import Message
from tests.model.rules.logs import Page

MAX_PARTITIONS = 8


class LogActs(Acting):
    """Reads, seeks and adds partitions; arguments as of `Acting`."""

    def read(self, ground: Ground) -> Act:
        """READ a page of a log, or all of it, from some offset or time on."""
        random = self.random
        partition = b"%d" % random.randrange(self.ledger.partition_count(ground.name))
        count = random.choice((1, 3, 10_000))
        offset = random.choice((0, 0, 0, 1, 5, 20))
        is_timed = random.random() < 0.2
        start_ms = self._some_time_ms() if is_timed else 0
        op = self.ledger.ask("read")
        start = [b"TIME", b"%d" % start_ms] if is_timed else [b"%d" % offset]
        reply = yield [b"READ", ground.name, partition, *start, b"COUNT", b"%d" % count]
        if self.is_over(op, reply, "NOTOPIC", "NOPARTITION", "BADOPTION"):
            return
        self.ledger.accept(op)
        page = page_of(reply)
        self.ledger.read(op, ground.name, partition, None if is_timed else offset, page)
        if is_timed:
            self.ledger.judge_time(op, ground.name, partition, start_ms, page)

    def _some_time_ms(self) -> int:
        return max(0, self.ledger.wall_ms() - self._paced_ms(self.random.choice((0, 1000, 5000, 20_000))))

    def new_group(self, ground: Ground) -> Act:
        """GROUP CREATE, now and then; or GROUP DELETE of the last one, whose existence is uncertain then."""
        group = ground.groups[-1]
        op = self.ledger.ask(f"group {group!r}", is_durable_at_once=True)
        self.ledger.begin_seek(op, ground.name, group)
        words = [b"DELETE", ground.name, group] if self.random.random() < 0.3 else [b"CREATE", ground.name, group]
        reply = yield [b"GROUP", *words]
        if not self.is_over(op, reply, "GROUPEXISTS", "NOGROUP", "GROUPINUSE", "NOTOPIC"):
            self.ledger.accept(op)

    def seek(self, ground: Ground) -> Act:
        """GROUP SEEK: back or forth, to one of the ends, a message or a time."""
        kind = self.random.choice(("earliest", "latest", "id", "time"))
        seq, start_ms = self.random.choice((0, 1, 4, 12)), self._some_time_ms()
        start = {"id": b"0-%d" % seq, "time": b"%d" % start_ms}.get(kind, kind.encode())
        is_dry = self.random.random() < 0.2
        op = self.ledger.ask(f"seek {start!r}", is_durable_at_once=not is_dry)
        if not is_dry:
            self.ledger.begin_seek(op, ground.name, b"g")
        reply = yield [b"GROUP", b"SEEK", ground.name, b"g", start, *([b"DRYRUN"] if is_dry else [])]
        if self.is_over(op, reply, "NOGROUP", "NOTOPIC", "BADOPTION", "BADGROUP"):
            return
        self.ledger.accept(op)

        def is_behind(message: Message) -> bool | None:
            if kind == "id":
                return int(message.id.partition(b"-")[2]) >= seq
            if kind == "time":
                return self.ledger.is_committed_since(message, start_ms)
            return kind == "earliest"

        self.ledger.judge_count(op, ground.name, is_behind, _map(reply)[b"after"])
        if not is_dry:
            self.ledger.sought(op, ground.name, b"g", is_behind)

    def grow(self, ground: Ground) -> Act:
        """TOPIC SET: one partition more."""
        count = self.ledger.partition_count(ground.name) + 1
        if count > MAX_PARTITIONS or self.random.random() < 0.7:
            return
        op = self.ledger.ask(f"{count} partitions", is_durable_at_once=True)
        self.ledger.begin_growth(op, ground.name, count)
        reply = yield [b"TOPIC", b"SET", ground.name, b"partitions", b"%d" % count]
        if not self.is_over(op, reply, "BADSETTING"):
            self.ledger.accept(op)

    def members(self, ground: Ground) -> Act:
        """GROUP LIST: the partitions are shared out fairly among those who are there."""
        op = self.ledger.ask("members")
        groups = yield [b"GROUP", b"LIST", ground.name]
        if self.is_over(op, groups, "NOTOPIC"):
            return
        self.ledger.accept(op)
        assert isinstance(groups, list)
        for group in map(_map, groups):
            self.ledger.judge_members(ground.name, _map(group[b"members"]), _map(group[b"moving"]))

    def figures(self, ground: Ground) -> Act:
        """GROUP LIST, while nothing else is under way: what was published is done, missed, or there."""
        op = self.ledger.ask("figures")
        bounds = yield [b"PARTITIONS", ground.name]
        if self.is_over(op, bounds, "NOTOPIC"):
            return
        assert isinstance(bounds, list)
        published = sum(int(str(_map(one)[b"end"])) for one in bounds)
        groups = yield [b"GROUP", b"LIST", ground.name]
        if not self.is_over(op, groups, "NOTOPIC"):
            assert isinstance(groups, list)
            self.ledger.accept(op)
            found = [_map(group) for group in groups]
            self.ledger.judge_groups(ground.name, {bytes(one[b"name"]): one for one in found}, published)  # type: ignore[arg-type]  # a name is bytes


def page_of(reply: object) -> Page:
    """Return what READ was answered."""
    words = _map(reply)
    messages = words[b"messages"]
    assert isinstance(messages, list)
    bounds = [int(str(words[name])) for name in (b"earliest", b"end", b"missed", b"next")]
    return Page(*bounds, [(bytes(id_), bytes(payload)) for id_, payload, _ in messages])


def _map(reply: object) -> dict[bytes, object]:
    assert isinstance(reply, list), reply
    return dict(zip(reply[::2], reply[1::2], strict=True))
