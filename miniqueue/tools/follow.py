"""`miniqueue backup -follow`: keeps a copy up to date with a running broker.

    connect ─▶ no copy yet? ─▶ copy ─▶ open ─▶ ask, write, ask, write, … ─▶ the connection ends ─▶ close ─▶ connect
                                 ▲                   │
                                 └── position lost ──┘

The copy is open, and so locked, only while the broker answers: a broker can be started on it as soon as the other one
is gone, and this process ends then. A refusal that waiting does not change ends it, too.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from zlib import crc32

import structlog

from miniqueue.errors import ConnectError, CorruptionError, DisconnectedError, ServerError
from miniqueue.server.process.copy_lag import CopyLag
from miniqueue.storage.leveldb.files.batches import batches_of
from miniqueue.storage.leveldb.replica import Replica, begin_replica, is_replica, name_of, refuse_other_content
from miniqueue.storage.port import Position
from miniqueue.tools.audit.store import Audit
from miniqueue.tools.monitoring import received, requested
from miniqueue.tools.restore import audited

log = structlog.get_logger()

#: Delay before each attempt to reach the broker; the last delay is repeated.
RETRY_SECONDS = (0.0, 0.2, 1.0, 2.0)
#: How long a broker may take to answer.
ANSWER_SECONDS = 60.0
#: The least interval of two requests, unless there is more to be read: fewer requests cost the broker less.
PACE_SECONDS = 0.05
#: Statuses of refusals that may end by themselves; 410 means that the position is lost.
_TEMPORARY = frozenset((429, 500, 502, 503, 504, 507))
_LOST = 410


@dataclass
class Status:
    """How far the copy is; another thread may read it.

    Attributes:
      phase: `connecting`, `copying`, or `following`.
      change: number of the last change of the broker that the copy contains; 0 if there is no copy.
      lag_bytes: size of what is missing, as of the last answer, at most.
      lag: the moment of which the copy is complete.
    """

    monotonic: Callable[[], float] = time.monotonic
    phase: str = "connecting"
    change: int = 0
    lag_bytes: int = 0
    lag: CopyLag = field(default_factory=CopyLag)

    @property
    def lag_seconds(self) -> float | None:
        """How old the moment is of which the copy is complete; None before the first answer."""
        return self.lag.seconds(self.monotonic())


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
        """Follow until something ends that; it blocks its event loop, which has nothing else to do.

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
                if isinstance(exc, ServerError) and exc.status not in _TEMPORARY:
                    raise
                if str(exc) != self._problem:
                    log.warning("the broker does not answer", problem=str(exc))
                self._status.phase, self._problem = "connecting", str(exc)
            self._log()
            await asyncio.sleep(RETRY_SECONDS[min(self._failure_count, len(RETRY_SECONDS) - 1)])
            self._failure_count += 1

    async def _follow(self) -> None:
        connection = self._connect()
        try:
            _open(connection)
            if not is_replica(self._directory):
                self._copy(connection, secrets.token_hex(4))
            while True:
                replica = await Replica.open(self._directory)
                try:
                    await self._continue(connection, replica)
                finally:
                    await replica.close()
                log.warning("the copy cannot be continued, and is made again")
                self._copy(connection, name_of(self._directory))
        finally:
            connection.close()

    def _copy(self, connection: HTTPConnection, name: str) -> None:
        """Make a copy, which replaces the present one when it is complete and checked."""
        self._status.phase = "copying"
        self._log(is_due=True)
        began_at = self._status.monotonic()
        response = requested(connection, f"/backup?follower={name}", self._headers)
        position = _position_of(response)
        audit = Audit()
        try:
            count = begin_replica(self._directory, name, position, audited(received(response), audit))
        except CorruptionError as exc:
            if not audit.problems.count:
                raise
            problems = [str(problem) for problem in audit.problems.kept]
            log.error("the store of the broker has problems", problems=problems)
            raise CorruptionError("the store of the broker has problems; no copy was made") from exc
        self._status.lag = CopyLag(began_at)
        log.info("copied", keys=count, seconds=round(self._status.monotonic() - began_at, 3))

    async def _continue(self, connection: HTTPConnection, replica: Replica) -> None:
        """Apply one answer after the other; return when the position of the copy is lost."""
        while (position := replica.position) is not None:
            self._status.change = position.change
            asked_at = self._status.monotonic()
            digest = position.digest.hex()
            try:
                response = requested(
                    connection,
                    f"/changes?follower={replica.name}&change={position.change}&digest={digest}",
                    self._headers,
                )
            except ServerError as exc:
                if exc.status == _LOST:
                    return
                raise
            batches = _writes_of(response)
            if batches:
                await replica.apply(batches, _position_of(response))
            self._failure_count, self._problem = 0, ""
            rest_bytes = self._note(response, replica.position or position, asked_at)
            if not rest_bytes:
                await asyncio.sleep(max(0.0, asked_at + PACE_SECONDS - self._status.monotonic()))

    def _note(self, response: HTTPResponse, position: Position, asked_at: float) -> int:
        """Note what the copy contains now; return the size of what is missing, at most."""
        last_change, rest_bytes = _number(response, "Last-Change"), _number(response, "Rest-Bytes")
        answered_at = asked_at + float(response.headers.get("Miniqueue-Waited-Seconds", "0"))
        status = self._status
        is_new = status.phase != "following"
        status.phase, status.change, status.lag_bytes = "following", position.change, rest_bytes
        status.lag.reach(position.change)
        status.lag.aim(last_change, answered_at)
        status.lag.reach(position.change)
        self._log(is_due=is_new)
        return rest_bytes

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


def _open(connection: HTTPConnection) -> None:
    try:
        connection.connect()
    except OSError as exc:
        raise ConnectError(f"no broker answers on {connection.host}:{connection.port}: {exc}") from exc


def _writes_of(response: HTTPResponse) -> list[bytes]:
    try:
        body = response.read()
    except (OSError, HTTPException) as exc:
        raise DisconnectedError(f"the writes of the broker are incomplete: {exc}") from exc
    if crc32(body) != _number(response, "Checksum"):
        raise DisconnectedError("the checksum of the writes does not match")
    return batches_of(body, _number(response, "Offset"))


def _number(response: HTTPResponse, name: str) -> int:
    text = response.headers.get(f"Miniqueue-{name}", "")
    if not text.isdigit():
        raise ServerError(f"the broker states no {name}: it has a version whose store cannot be followed")
    return int(text)


def _position_of(response: HTTPResponse) -> Position:
    change = _number(response, "Change")
    try:
        return Position(change, bytes.fromhex(response.headers.get("Miniqueue-Digest", "")))
    except ValueError as exc:
        raise CorruptionError("the broker has sent an invalid digest") from exc
