"""Continues one store of a copy that follows: asks the broker for what comes next, and writes it."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import NamedTuple
from zlib import crc32

import structlog

from miniqueue.errors import ConnectError, CorruptionError, DisconnectedError, ServerError
from miniqueue.server.process.copy_lag import CopyLag
from miniqueue.storage.format import keys
from miniqueue.storage.leveldb.files.batches import batches_of, changes_in
from miniqueue.storage.leveldb.replica import Replica, position_after
from miniqueue.storage.port import Position
from miniqueue.tools.monitoring import response_of
from miniqueue.tools.transfer_order import Changes, TransferOrder, transfers_among

log = structlog.get_logger()

#: Delay before each attempt to reach the broker, or a shard of it; the last delay is repeated.
RETRY_SECONDS = (0.0, 0.2, 1.0, 2.0)
#: How long a broker may take to answer.
ANSWER_SECONDS = 60.0
#: The least interval of two requests, unless there is more to be read: fewer requests cost the broker less.
PACE_SECONDS = 0.05
#: Statuses of refusals that may end by themselves; 410 means that the position is lost.
TEMPORARY = frozenset((429, 500, 502, 503, 504, 507))
_LOST = 410
#: The phases of a store, the worst first.
_PHASES = ("connecting", "copying", "following")


@dataclass
class StoreStatus:
    """How far one store of a copy is.

    Attributes:
      phase: `connecting`, `copying`, or `following`.
      change: number of the last change of the broker that the store contains; 0 if there is no copy.
      lag_bytes: size of what is missing, as of the last answer, at most.
      lag: the moment of which the store is complete.
    """

    phase: str = "connecting"
    change: int = 0
    lag_bytes: int = 0
    lag: CopyLag = field(default_factory=CopyLag)


@dataclass
class Status:
    """How far a copy is; another thread may read it.

    Attributes:
      monotonic: the clock, in seconds.
      stores: how far each store is, by shard.
    """

    monotonic: Callable[[], float] = time.monotonic
    stores: list[StoreStatus] = field(default_factory=lambda: [StoreStatus()])

    @property
    def phase(self) -> str:
        """The phase of the store that is not as far as the others."""
        return min((store.phase for store in self.stores), key=_PHASES.index)

    @property
    def change(self) -> int:
        """The numbers of the last changes, added."""
        return sum(store.change for store in self.stores)

    @property
    def lag_bytes(self) -> int:
        """Size of what is missing, as of the last answers, at most."""
        return sum(store.lag_bytes for store in self.stores)

    @property
    def lag_seconds(self) -> float | None:
        """How old the moment is of which the whole copy is complete; None before the first answers."""
        seconds = [store.lag.seconds(self.monotonic()) for store in self.stores]
        known = [each for each in seconds if each is not None]
        return max(known) if len(known) == len(seconds) else None


class Source(NamedTuple):
    """Where a broker serves a store.

    Attributes:
      connect: returns an open connection to the monitoring port; raises ConnectError.
      headers: the headers of every request.
      path: empty, or the path of a shard.
    """

    connect: Callable[[], HTTPConnection]
    headers: Mapping[str, str]
    path: str = ""


class Following:
    """Continues one store.

    Args:
      shard: the number of its shard.
      source: where the broker serves it.
      replica: the store.
      status: shows how far all stores are.
      order: decides when the store may be written; None: it is the only one.
      on_answer: called after each answer; the argument is whether it is the first one.
    """

    def __init__(
        self,
        shard: int,
        source: Source,
        replica: Replica,
        status: Status,
        order: TransferOrder | None,
        on_answer: Callable[[bool], None],
    ) -> None:
        self._shard = shard
        self._source = source
        self._replica = replica
        self._monotonic = status.monotonic
        self._status = status.stores[shard]
        self._order = order
        self._on_answer = on_answer
        self._failure_count = 0
        self._problem = ""  # why the shard has not answered since it did

    async def run(self) -> None:
        """Apply one answer after the other; return when the position of the store is lost.

        Raises ConnectError if no process of the broker answers, and ServerError if it refuses for good.
        """
        if self._order is not None:
            self._order.wrote(self._shard, [await self._replica.pairs(keys.transfers())])
        while True:
            with closing(self._source.connect()) as connection:
                try:
                    while await self._advance(connection):
                        pass
                    return
                except TimeoutError as exc:
                    raise ConnectError(f"the broker has not answered for {ANSWER_SECONDS:.0f} s") from exc
                except (ConnectError, DisconnectedError, ServerError) as exc:
                    if isinstance(exc, ServerError) and exc.status not in TEMPORARY:
                        raise
                    self._note_failure(str(exc))
            await asyncio.sleep(RETRY_SECONDS[min(self._failure_count, len(RETRY_SECONDS)) - 1])

    def _note_failure(self, problem: str) -> None:
        if problem != self._problem:
            shard = {} if self._order is None else {"shard": self._shard}
            log.warning("the copy waits", **shard, problem=problem)
        self._status.phase, self._problem = "connecting", problem
        self._failure_count += 1

    async def _advance(self, connection: HTTPConnection) -> bool:
        """Ask for what comes next, and write it; return False if the position is lost."""
        position = self._replica.position
        if position is None:
            return False
        self._status.change = position.change
        asked_at = self._monotonic()
        moment = 0 if self._order is None else self._order.moment
        try:
            response = await self._answer(connection, position)
        except ServerError as exc:
            if exc.status == _LOST:
                return False
            raise
        batches = _writes_of(response)
        if batches:
            await self._write(batches)
        elif self._order is not None:
            self._order.rests(self._shard, moment)
        self._failure_count, self._problem = 0, ""
        rest_bytes = self._note(response, asked_at)
        if not rest_bytes:
            await asyncio.sleep(max(0.0, asked_at + PACE_SECONDS - self._monotonic()))
        return True

    async def _answer(self, connection: HTTPConnection, position: Position) -> HTTPResponse:
        query = f"follower={self._replica.name}&change={position.change}&digest={position.digest.hex()}"
        try:
            connection.request("GET", f"{self._source.path}/changes?{query}", headers=dict(self._source.headers))
        except (OSError, HTTPException) as exc:
            raise DisconnectedError(f"the broker has closed the connection: {exc}") from exc
        await _readable(connection)  # other stores are written meanwhile
        return response_of(connection, self._source.headers)

    async def _write(self, batches: list[bytes]) -> None:
        """Write batches, as many at once as the order allows."""
        if self._order is None:
            await self._replica.apply(batches, position_after(batches[-1]))
            return
        writes: Sequence[Changes] = [transfers_among(changes_in(batch)) for batch in batches]
        while batches:
            count = await self._order.next_count(self._shard, writes)
            await self._replica.apply(batches[:count], position_after(batches[count - 1]))
            self._order.wrote(self._shard, writes[:count])
            batches, writes = batches[count:], writes[count:]

    def _note(self, response: HTTPResponse, asked_at: float) -> int:
        """Note what the store contains now; return the size of what is missing, at most."""
        last_change, rest_bytes = number_of(response, "Last-Change"), number_of(response, "Rest-Bytes")
        answered_at = asked_at + float(response.headers.get("Miniqueue-Waited-Seconds", "0"))
        status, position = self._status, self._replica.position
        assert position is not None  # `_advance` has asked for what follows it
        is_new = status.phase != "following"
        status.phase, status.change, status.lag_bytes = "following", position.change, rest_bytes
        status.lag.reach(position.change)
        status.lag.aim(last_change, answered_at)
        status.lag.reach(position.change)
        self._on_answer(is_new)
        return rest_bytes


async def _readable(connection: HTTPConnection) -> None:
    """Return when a response has begun to arrive; raises TimeoutError."""
    loop, begun, socket = asyncio.get_running_loop(), asyncio.Event(), connection.sock
    loop.add_reader(socket, begun.set)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await begun.wait()
    finally:
        loop.remove_reader(socket)


def _writes_of(response: HTTPResponse) -> list[bytes]:
    try:
        body = response.read()
    except (OSError, HTTPException) as exc:
        raise DisconnectedError(f"the writes of the broker are incomplete: {exc}") from exc
    if crc32(body) != number_of(response, "Checksum"):
        raise DisconnectedError("the checksum of the writes does not match")
    batches = batches_of(body, number_of(response, "Offset"))
    if batches and position_after(batches[-1]) != position_of(response):
        raise CorruptionError(f"the broker has sent other writes than those up to {position_of(response).change}")
    return batches


def number_of(response: HTTPResponse, name: str) -> int:
    """Return a number that the broker states in a header; raises ServerError."""
    text = response.headers.get(f"Miniqueue-{name}", "")
    if not text.isdigit():
        raise ServerError(f"the broker states no {name}: it has a version whose store cannot be followed")
    return int(text)


def position_of(response: HTTPResponse) -> Position:
    """Return the position that the broker states; raises ServerError, CorruptionError."""
    change = number_of(response, "Change")
    try:
        return Position(change, bytes.fromhex(response.headers.get("Miniqueue-Digest", "")))
    except ValueError as exc:
        raise CorruptionError("the broker has sent an invalid digest") from exc
