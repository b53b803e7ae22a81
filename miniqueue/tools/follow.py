"""`miniqueue backup -follow`: keeps a copy up to date with a running broker.

    connect ─▶ no copy yet? ─▶ copy ─▶ open ─▶ ask, write, ask, write, … ─▶ no process answers ─▶ close ─▶ connect
                                 ▲                   │
                                 └── position lost ──┘

The copy is open, and so locked, only while the broker answers: a broker can be started on it as soon as the other one
is gone, and this process ends then. A refusal that waiting does not change ends it, too.

With shards, all stores are copied at once, so that no message is missing that moves between them (`monitoring.cut`),
and each is continued by itself (`following`), in an order that keeps it so (`transfer_order`).
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path

import structlog

from miniqueue.errors import ConnectError, CorruptionError, DisconnectedError, ServerError
from miniqueue.server.process.copy_lag import CopyLag
from miniqueue.storage.leveldb.replica import (
    Replica,
    begin_replica,
    begin_replicas,
    name_of,
    refuse_other_content,
    replicas_in,
)
from miniqueue.storage.leveldb.shards import shard_count
from miniqueue.tools.audit.store import Audit
from miniqueue.tools.following import RETRY_SECONDS, TEMPORARY, Following, Source, Status, StoreStatus, position_of
from miniqueue.tools.monitoring import SeveralStoresError, cut, received_together, requested
from miniqueue.tools.transfer_order import TransferOrder
from miniqueue.wire.pair_stream import Pair

log = structlog.get_logger()


class Follower:
    """Keeps one directory up to date.

    Args:
      directory: missing, empty, or a copy that follows.
      connect: returns an unopened connection to the monitoring port.
      headers: the headers of every request.
      status: shows how far the copy is.
      interval_seconds: how often to log that.
    """

    def __init__(
        self,
        directory: Path,
        connect: Callable[[], HTTPConnection],
        headers: Mapping[str, str],
        status: Status,
        interval_seconds: float,
    ) -> None:
        self._directory = directory
        self._connect = connect
        self._headers = headers
        self._status = status
        self._interval_seconds = interval_seconds
        self._logged_at = 0.0
        self._failure_count = 0
        self._problem = ""  # why the broker has not answered since it did

    async def run(self) -> None:
        """Follow until something ends that.

        It blocks its event loop while an answer arrives: the loop has nothing else to do than to wait for the next.

        Raises:
          NotEmptyError, StoreInUseError: the directory is something else, or a broker uses it, or has used it.
          ServerError: the broker refuses for good.
          CorruptionError: the content of the broker's store has problems.
          StorageError: the directory cannot be written.
        """
        while True:
            refuse_other_content(self._directory)  # even if the broker that it followed has gone
            try:
                await self._follow()
            except (ConnectError, DisconnectedError, ServerError) as exc:
                if isinstance(exc, ServerError) and exc.status not in TEMPORARY:
                    raise
                if str(exc) != self._problem:
                    log.warning("the broker does not answer", problem=str(exc))
                for store in self._status.stores:
                    store.phase = "connecting"
                self._problem = str(exc)
            self._log()
            await asyncio.sleep(RETRY_SECONDS[min(self._failure_count, len(RETRY_SECONDS) - 1)])
            self._failure_count += 1

    async def _follow(self) -> None:
        self._opened().close()  # raises if no broker answers; nothing is opened here then
        if not replicas_in(self._directory):
            self._copy(secrets.token_hex(4))
        while True:
            stores = replicas_in(self._directory)
            self._begin(len(stores), "connecting")
            async with AsyncExitStack() as opened:
                replicas = []
                for store in stores:
                    replicas.append(await Replica.open(store))
                    opened.push_async_callback(replicas[-1].close)
                await self._continue(replicas)
            log.warning("the copy cannot be continued, and is made again")
            self._copy(name_of(stores[0]))

    def _opened(self) -> HTTPConnection:
        connection = self._connect()
        try:
            connection.connect()
        except OSError as exc:
            raise ConnectError(f"no broker answers on {connection.host}:{connection.port}: {exc}") from exc
        return connection

    def _begin(self, store_count: int, phase: str) -> None:
        """Show a phase for all stores."""
        if len(self._status.stores) != store_count:
            self._status.stores = [StoreStatus() for _ in range(store_count)]
        for store in self._status.stores:
            store.phase = phase

    # --- the whole content ------------------------------------------------------------------------------------

    def _copy(self, name: str) -> None:
        """Make a copy, which replaces the present one when it is complete and checked."""
        self._begin(len(self._status.stores), "copying")
        self._log(is_due=True)
        began_at = self._status.monotonic()
        with ExitStack() as stack:
            connection, shards = stack.enter_context(closing(self._opened())), 0
            try:
                responses = [requested(connection, f"/backup?follower={name}", self._headers)]
            except SeveralStoresError as refusal:
                shards = refusal.shard_count
                query = f"&follower={name}"
                responses = stack.enter_context(cut(self._connect, self._headers, shards, query))
            positions = [position_of(response) for response in responses]
            pairs = _audited(received_together(responses), len(responses))
            if shards:
                count = begin_replicas(self._directory, name, positions, pairs)
            else:
                count = begin_replica(self._directory, name, positions[0], (pair for _, pair in pairs))
        self._begin(len(positions), "copying")
        for store in self._status.stores:
            store.lag = CopyLag(began_at)
        log.info("copied", keys=count, seconds=round(self._status.monotonic() - began_at, 3))

    # --- what comes next --------------------------------------------------------------------------------------

    async def _continue(self, replicas: Sequence[Replica]) -> None:
        """Continue all stores; return when the position of one is lost. Raises as `Following.run`."""
        order = TransferOrder(len(replicas)) if shard_count(self._directory) else None
        paths = [""] if order is None else [f"/shards/{number}" for number in range(len(replicas))]
        sources = [Source(self._opened, self._headers, path) for path in paths]
        tasks = [
            asyncio.create_task(Following(number, source, replica, self._status, order, self._note_answer).run())
            for number, (source, replica) in enumerate(zip(sources, replicas, strict=True))
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _note_answer(self, is_first: bool) -> None:
        self._failure_count, self._problem = 0, ""
        self._log(is_due=is_first and self._status.phase == "following")

    def _log(self, *, is_due: bool = False) -> None:
        now, status = self._status.monotonic(), self._status
        if is_due or now >= self._logged_at + self._interval_seconds:
            self._logged_at = now
            log.info(
                status.phase,
                change=status.change,
                lag_seconds=status.lag_seconds,
                lag_bytes=status.lag_bytes,
            )


def _audited(pairs: Iterator[tuple[int, Pair]], store_count: int) -> Iterator[tuple[int, Pair]]:
    """Pass the pairs of all stores on; raise CorruptionError after the last one if an audit reports a problem."""
    audits = [Audit() for _ in range(store_count)]
    for number, pair in pairs:
        audits[number].take(*pair)
        yield number, pair
    for audit in audits:
        audit.finish()
    if problems := [str(problem) for audit in audits for problem in audit.problems.kept]:
        log.error("the store of the broker has problems", problems=problems)
        raise CorruptionError("the store of the broker has problems; no copy was made")
