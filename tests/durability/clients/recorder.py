"""What clients write their history to: a file of JSON lines, and the checker.

The file has every event with the ids, one JSON object a line, so that a finding can be followed by hand.
"""

import dataclasses
import json
import time
from itertools import count
from pathlib import Path

from tests.durability.clients.events import Act, Deliver, Event, Fail, Gone, Invoke, Ok, Unknown
from tests.durability.clients.history import Checker
from tests.durability.clients.messages import id_of


class Recorder:
    """Hands out ids, and logs what happens in the order in which it happens.

    Args:
      path: the file of events; `turn_page` keeps one more beside it.
      shard_count: the number of shards, all of which end with each crash.
      first_id: the id of the first message.
      leases_end: whether leases can end before their clients notice, as in `Checker`.
    """

    def __init__(self, path: Path, shard_count: int = 1, *, first_id: int = 1, leases_end: bool = False) -> None:
        self.checker = Checker(shard_count, leases_end=leases_end)
        self._path = path
        self._file = path.open("w")
        self._ops = count(1)
        self._message_ids = count(first_id)
        self._clients: dict[str, count[int]] = {}

    def new_ids(self, number: int) -> tuple[int, ...]:
        return tuple(next(self._message_ids) for _ in range(number))

    def new_client(self, kind: str) -> str:
        """Return a name that no connection has had before."""
        return f"{kind}-{next(self._clients.setdefault(kind, count(1)))}"

    def log(self, event: Event) -> None:
        self._file.write(json.dumps({"event": type(event).__name__, **dataclasses.asdict(event)}) + "\n")
        self.checker.take(event)

    # --- short forms for clients --------------------------------------------------------------------------------

    def invoke(
        self,
        client: str,
        act: Act,
        topic: str,
        ids: tuple[int, ...],
        delay_seconds: float = 0.0,
        *,
        is_synced: bool = False,
    ) -> int:
        """Log that a request is about to be sent; return the number of the operation."""
        op = next(self._ops)
        self.log(Invoke(op, client, act, topic, ids, time.time(), delay_seconds, is_synced))
        return op

    def ok(self, op: int, seqs: tuple[int, ...] = ()) -> None:
        self.log(Ok(op, seqs))

    def fail(self, op: int) -> None:
        self.log(Fail(op))

    def unknown(self, op: int) -> None:
        self.log(Unknown(op))

    def gone(self, client: str) -> None:
        self.log(Gone(client))

    def deliver(
        self, client: str, topic: str, payload: bytes, marks: dict[str, int] | None, *, reader: str = ""
    ) -> int | None:
        """Log that a message has come; return its id, or None when it is none."""
        id_ = id_of(payload)
        self.log(Deliver(client, topic, id_, marks, time.time(), reader))
        return id_

    def turn_page(self) -> None:
        """Begin a new file, and keep only the one before; a soak would fill the disk."""
        self._file.close()
        self._path.rename(self._path.with_suffix(".before.jsonl"))
        self._file = self._path.open("w")

    def close(self) -> None:
        self._file.close()
