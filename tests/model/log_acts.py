"""Reading a log, and moving groups in it, at random."""

from tests.model.acting import Act, Acting
from tests.model.grounds import Ground


class LogActs(Acting):
    """Reads and seeks; arguments as of `Acting`."""

    def read(self, ground: Ground) -> Act:
        """READ the whole log of a topic that keeps it: everything that was published for certain, in order, once."""
        op = self.ledger.ask("read")
        reply = yield [b"READ", ground.name, b"0", b"0", b"COUNT", b"10000"]
        if self._is_over(op, reply, "NOTOPIC", "NOPARTITION"):
            return
        assert isinstance(reply, list), reply
        self.ledger.accept(op)
        page = dict(zip(reply[::2], reply[1::2], strict=True))
        self.ledger.read(op, ground.name, [(bytes(id_), bytes(payload)) for id_, payload, _ in page[b"messages"]])

    def new_group(self, ground: Ground) -> Act:
        """GROUP CREATE, now and then; or GROUP DELETE of the last one, which nobody holds for certain then."""
        group = ground.groups[-1]
        op = self.ledger.ask(f"group {group!r}", is_durable_at_once=True)
        self.ledger.begin_seek(op, ground.name, group)
        words = [b"DELETE", ground.name, group] if self.random.random() < 0.3 else [b"CREATE", ground.name, group]
        reply = yield [b"GROUP", *words]
        if not self._is_over(op, reply, "GROUPEXISTS", "NOGROUP", "GROUPINUSE", "NOTOPIC"):
            self.ledger.accept(op)

    def seek(self, ground: Ground) -> Act:
        """GROUP SEEK to one of the ends: at the earliest there is everything again, where everything is kept."""
        start = self.random.choice((b"earliest", b"latest"))
        op = self.ledger.ask(f"seek {start!r}", is_durable_at_once=True)
        self.ledger.begin_seek(op, ground.name, b"g")
        reply = yield [b"GROUP", b"SEEK", ground.name, b"g", start]
        if not self._is_over(op, reply, "NOGROUP", "NOTOPIC"):
            self.ledger.accept(op)
            if start == b"earliest":
                self.ledger.sought_all(op, ground.name, b"g")
