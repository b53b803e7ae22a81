"""Composition: one event loop, one store, one broker, its listeners; from the first bind to the last commit.

    startup   certificates ─ sockets ─ store ─ broker ─ listeners ─ "ready"
    stop      waiting requests are answered, consumers can settle their leases for a while (`process.stopping`)
              ─ no new connections ─ streams end, leases return ─ last commit ─ store closed

Sockets are bound before the store is opened, so that a port in use is detected before anything is changed.
"""

import asyncio
import os
import signal
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import structlog
import uvloop

from miniqueue.broker import Broker, SystemClock
from miniqueue.broker.engine.schemas import Schemas
from miniqueue.core.settings.placing import Placing
from miniqueue.errors import ConfigError, StoreFailedError
from miniqueue.errors.requests import InvalidSettingError
from miniqueue.interrupts import Interrupted
from miniqueue.server.cluster.nodes import ONE_NODE, Nodes
from miniqueue.server.config.config import Config, broker_limits, naming_flag_of_store, shown_settings
from miniqueue.server.hypercorn.listening import listen
from miniqueue.server.listeners import Listeners, Sockets, report_ready
from miniqueue.server.process import descriptors, logs, memory_limit, runtime
from miniqueue.server.process.accepting import AcceptingLoop
from miniqueue.server.process.service_manager import ServiceManager
from miniqueue.server.security.authentication import Authenticator
from miniqueue.server.security.certificates import Certificates, ensure_certificates
from miniqueue.server.security.exposure import check_directory, check_exposure, check_writable, correct_modes
from miniqueue.server.security.file_access import correction
from miniqueue.server.security.user_source import UserSource
from miniqueue.storage.leveldb.database import DatabaseOptions
from miniqueue.storage.leveldb.mapped_tables import (
    CHECK_SECONDS,
    is_limit_exceeded,
    limit_mapped_tables,
    release_tables,
)
from miniqueue.storage.leveldb.marker import MARKER_FILE_NAME
from miniqueue.storage.leveldb.reserve import ReserveOptions
from miniqueue.storage.leveldb.shards import SHARDS_FILE_NAME, check_has_no_shards, claim_shards, store_of_shard
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.memory import MemoryStore
from miniqueue.storage.port import Store, SyncMode

if TYPE_CHECKING:
    from miniqueue.server.shards.shard import Shard

log = structlog.get_logger()

#: Files are created with mode 0600 and directories with 0700, even those that LevelDB creates.
PRIVATE_UMASK = 0o077
#: The limits of the broker of which each shard has an equal part.
DIVIDED: Final = ("max_connections", "max_topics", "max_partitions", "max_schedules", "max_dedup_ids")


def run(config: Config, ignored_variables: Sequence[str] = ()) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
      config: the settings.
      ignored_variables: names of variables that look like settings but are not, for the log.

    Raises:
      ConfigError, CertificateError, ListenError, StorageError: the broker could not start.
      StoreFailedError: the store failed and could not be reopened.
      InternalError: a listener ended without being asked to.
      Interrupted: SIGTERM arrived before the broker was ready.
    """
    runtime.prepare()
    logs.configure(config.level, config.human)
    os.umask(PRIVATE_UMASK)
    if ignored_variables:
        log.info("variables of a Kubernetes Service ignored", variables=", ".join(ignored_variables))
    _check_exposure(config)
    users = UserSource(config, _report_access) if config.has_users else None
    sign_in = None if users is None else Authenticator(users.read())
    certificates = ensure_certificates(
        config.cert, config.key, may_create=config.has_default_certificate, now=datetime.now(UTC)
    )
    _report_certificates(certificates)
    descriptors.raise_limit()
    if config.shards > 1:
        _run_shards(config, certificates, users, sign_in)
    else:
        check_has_no_shards(config.db)
        _run_loop(_serve(config, certificates, users, sign_in, _listen(config)))


def _run_loop(serving: Coroutine[None, None, None]) -> None:
    try:
        uvloop.run(serving, loop_factory=AcceptingLoop)
    except asyncio.CancelledError:
        raise Interrupted(signal.SIGTERM) from None


@contextmanager
def _listen(config: Config) -> Iterator[Sockets]:
    with (
        listen(config.host, config.port) as https,
        listen(config.host, config.resp_port, "-resp-port") as resp,
        listen(config.monitor_host, config.monitor_port, "-monitor-port", "-monitor-host") as monitor,
    ):
        yield Sockets(https, resp, monitor)


def _check_exposure(config: Config) -> None:
    """Reject a startup that would let strangers in, or that cannot write to its directory; log risks."""
    exposure = check_exposure(config)
    check_writable(config)
    is_store = any(os.path.exists(config.db / name) for name in (MARKER_FILE_NAME, SHARDS_FILE_NAME))
    if corrected := correct_modes(config, is_store=is_store):
        _report_access(corrected)
    for warning in filter(None, (exposure, check_directory(config, is_store=is_store))):
        log.warning("insecure", problem=warning)


def _report_access(problem: str) -> None:
    log.warning("access of a group", problem=problem)


def _report_certificates(certificates: Certificates) -> None:
    if certificates.created:
        log.info("certificates made", files=[str(path) for path in certificates.created], trust=certificates.hint)
    if certificates.warning:
        log.warning("certificate", problem=certificates.warning)
    for key in certificates.corrected:
        _report_access(correction(key))


def _run_shards(
    config: Config, certificates: Certificates, users: UserSource | None, sign_in: Authenticator | None
) -> None:
    """Serve as the parent of a process for each shard, or, in a child, as one of them."""
    from miniqueue.server.shards.parent import Parent, backs  # noqa: PLC0415 - only with -shards
    from miniqueue.server.shards.shard import About, Shard  # noqa: PLC0415 - the same

    _check_defaults(config)
    service_manager = ServiceManager(os.environ)
    max_memory_bytes = config.max_memory_bytes or memory_limit.default_bytes()
    about = About(SystemClock().now_ms(), str(config.db.absolute()), shown_settings(config))
    with ExitStack() as stack:
        sockets = stack.enter_context(_listen(config))
        fronts = [stack.enter_context(listen(config.host, port, "-shard-ports")) for port in _shard_ports(config)]
        if config.storage == "leveldb":
            with naming_flag_of_store():
                stack.callback(claim_shards(config.db, config.shards).release)
        paths, listeners = stack.enter_context(backs(config.shards))
        parent = Parent(
            config.shards,
            on_ready=partial(report_ready, config, sockets._replace(shards=fronts), service_manager, max_memory_bytes),
            on_stop=service_manager.stopping,
            reloading=service_manager.reloading,
            feed=service_manager.feed,
        )
        role = parent.run()
        if isinstance(role, int):
            raise SystemExit(role)
        logs.name_shard(role.number)
        placing = Placing(role.number, config.shards)
        shard = Shard(
            placing,
            paths,
            listeners[role.number],
            role.parent,
            about,
            front=fronts[role.number] if fronts else None,
            nodes=_nodes(config, role.number),
        )
        _run_loop(_serve(_of_shard(config, role.number), certificates, users, sign_in, nullcontext(sockets), shard))


def _shard_ports(config: Config) -> range:
    """Return the ports of single shards, none if they have no ports."""
    return range(config.shard_ports, config.shard_ports + config.shards) if config.shard_ports else range(0)


def _nodes(config: Config, number: int) -> Nodes:
    """Return the nodes that clients see in one shard."""
    slots = [Placing(number, config.shards).slots_of(shard) for shard in range(config.shards)]
    return Nodes(number, config.shard_ports, slots, config.announced_host) if config.shard_ports else ONE_NODE


def _of_shard(config: Config, number: int) -> Config:
    """Return the settings of one shard: its directory, and its part of the limits of the broker."""
    count = config.shards
    max_memory_bytes = (config.max_memory_bytes or memory_limit.default_bytes()) // count
    parts = {field: -(-getattr(config, field) // count) for field in DIVIDED}
    return replace(config, db=store_of_shard(config.db, number), max_memory_bytes=max_memory_bytes, **parts)


async def _serve(
    config: Config,
    certificates: Certificates,
    users: UserSource | None,
    sign_in: Authenticator | None,
    listening: AbstractContextManager[Sockets],
    shard: "Shard | None" = None,
) -> None:
    starting = cast("asyncio.Task[None]", asyncio.current_task())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, starting.cancel)  # `Listeners` replaces it
    with listening as (https, resp, monitor, _):
        broker = _make_broker(config)
        if shard is not None:
            broker.place(shard.placing)
        if sign_in is not None:
            broker.set_quotas(sign_in.quotas)
        with naming_flag_of_store():
            await broker.start()
        runtime.freeze_live_objects()
        runtime.return_freed_memory()  # the checks of a start read tables: 60 MB with a million returned messages
        broker.memory.watch(memory_limit.own_bytes, runtime.return_freed_memory)
        returning = [
            asyncio.create_task(runtime.return_memory_regularly([runtime.return_freed_memory, release_tables])),
            asyncio.create_task(
                runtime.return_memory_regularly([limit_mapped_tables], CHECK_SECONDS, is_limit_exceeded)
            ),
        ]
        try:
            await Listeners(config, certificates, broker, users, sign_in, shard).run(https, resp, monitor)
        finally:
            for task in returning:
                task.cancel()
            await broker.stop()
            log.info("stopped")
    if broker.failed.done():
        raise StoreFailedError(str(broker.failed.result()))


def _make_broker(config: Config) -> Broker:
    broker = Broker(
        partial(_open_store, config),
        clock=SystemClock(),
        max_message_bytes=config.max_message_bytes,
        period_seconds=config.period_seconds,
        lease_seconds=config.lease_seconds,
        sync_interval_seconds=config.sync_interval_seconds if config.sync == "interval" else None,
        limits=broker_limits(config, config.max_memory_bytes or memory_limit.default_bytes()),
    )
    with _naming_defaults():
        broker.set_defaults(config.topic_defaults)
    return broker


def _check_defaults(config: Config) -> None:
    """Raise ConfigError if new topics cannot have the defaults, once for all shards."""
    with _naming_defaults():
        Schemas().check_defaults(config.topic_defaults)


@contextmanager
def _naming_defaults() -> Iterator[None]:
    try:
        yield
    except InvalidSettingError as exc:
        raise ConfigError([f"the defaults of new topics: {exc}"]) from exc


async def _open_store(config: Config) -> Store:
    if config.storage == "memory":
        return MemoryStore()
    reserve = ReserveOptions(min_free_bytes=config.min_free_bytes, ballast_bytes=config.ballast_bytes)
    options = DatabaseOptions(compression=config.compression)
    store = await LevelDBStore.open(config.db, sync=SyncMode(config.sync), options=options, reserve=reserve)
    _report_opening(store)
    return store


def _report_opening(store: LevelDBStore) -> None:
    for torn in store.set_aside:
        details = {"file": str(torn.file), "offset": torn.offset, "size_bytes": torn.size_bytes}
        if torn.copy is None:
            log.warning("the end of a log was never finished nor acknowledged and has been dropped", **details)
            continue
        log.warning(
            "the unacknowledged end of a log was damaged and has been set aside", **details, copy=str(torn.copy)
        )
    for doubt in store.doubts:
        log.warning("a part of the start's checks could not be made", problem=doubt)
