"""The three listeners of one broker, from startup until all connections have ended.

HTTP ───────┐                                   SIGHUP ─▶ users and certificate are read again
RESP ───────┼─▶ applications ─▶ the broker      SIGTERM ─▶ consumers settle ─▶ streams end ─▶ all have ended
monitoring ─┘                                   with shards: the doors stand between
"""

import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from socket import gethostname, socket
from typing import TYPE_CHECKING, NamedTuple, cast

import structlog
from starlette.types import ASGIApp

from miniqueue import __version__
from miniqueue.broker import Broker
from miniqueue.broker.runtime.notices import NoticeKind
from miniqueue.broker.runtime.share import TimeShare
from miniqueue.errors import ConfigError, InternalError, MiniqueueError, described
from miniqueue.interrupts import admit_hangup
from miniqueue.server.asgi.refusals import Refusals
from miniqueue.server.config.config import Config, shown_settings
from miniqueue.server.greeting import Ports, greeting, is_greeted, program_of
from miniqueue.server.http.app import HttpApp
from miniqueue.server.hypercorn import HttpLimits
from miniqueue.server.hypercorn.limits import KEEP_ALIVE_SECONDS
from miniqueue.server.hypercorn.listening import ServeHttps, serve_https, serve_plain
from miniqueue.server.monitor.app import MonitorApp
from miniqueue.server.monitor.metrics import CERTIFICATE_ROWS, LAG_ROWS
from miniqueue.server.page import Page
from miniqueue.server.process import descriptors, memory_limit
from miniqueue.server.process.accepting import AcceptingLoop
from miniqueue.server.process.connection_limits import ConnectionLimits
from miniqueue.server.process.guests import Guests
from miniqueue.server.process.loop_lag import LoopLag
from miniqueue.server.process.metric_rows import RowCollector
from miniqueue.server.process.service_manager import ServiceManager
from miniqueue.server.process.stopping import settle_before_stop
from miniqueue.server.resp.idle import IdleWatch
from miniqueue.server.resp.refusals import REFUSAL_ROWS
from miniqueue.server.resp.server import RespServer
from miniqueue.server.security.authentication import Authenticator
from miniqueue.server.security.certificates import HTTP_PROTOCOLS, Certificates
from miniqueue.server.security.exposure import is_loopback, serves_dashboard
from miniqueue.server.security.file_watch import watch
from miniqueue.server.security.tls import ServerTls
from miniqueue.server.security.user_source import UserSource

if TYPE_CHECKING:
    from miniqueue.server.dashboard.models.facts import Facts
    from miniqueue.server.shards.shard import Shard

log = structlog.get_logger()

#: Maximum number of connections to monitoring, in total and from one address, if other machines can reach it.
MAX_MONITOR_CONNECTIONS = 100
MAX_MONITOR_CONNECTIONS_PER_ADDRESS = 20
#: Maximum duration of a stop, after the time for consumers to settle; then connections that still hang are aborted.
STOP_SECONDS = 6.0


class Sockets(NamedTuple):
    """The listening sockets of a broker; `shards` has those for RESP of single shards."""

    https: socket
    resp: socket
    monitor: socket
    shards: Sequence[socket] = ()


def report_ready(config: Config, sockets: Sockets, service_manager: ServiceManager, max_memory_bytes: int) -> None:
    """Report that clients can connect: in the log, on a terminal, and to the service manager."""
    https, resp, monitor, *shards = (each.getsockname()[1] for each in (*sockets[:3], *sockets.shards))
    ports = Ports(https, resp, monitor, tuple(shards))
    shown = {name: value for name, value in ports._asdict().items() if value != ()}
    log.info("ready", version=__version__, **shown, max_memory_mib=max_memory_bytes >> 20)
    if is_greeted(config, sys.stderr.isatty()):
        program = program_of(sys.argv[0], is_on_path=shutil.which("miniqueue") is not None)
        print(greeting(config, ports, program), end="", file=sys.stderr, flush=True)
    service_manager.ready()


class Listeners:
    """The three listeners of one broker, from startup until all connections have ended."""

    def __init__(
        self,
        config: Config,
        certificates: Certificates,
        broker: Broker,
        users: UserSource | None,
        sign_in: Authenticator | None,
        shard: "Shard | None" = None,
    ) -> None:
        self._config = config
        self._shard = shard
        self._users = users
        self._sign_in = sign_in
        self._certificates = certificates
        self._limits = HttpLimits(
            Refusals(time.monotonic),
            stall_seconds=config.stall_seconds,
            idle_seconds=min(config.idle_seconds or inf, KEEP_ALIVE_SECONDS),
            body_seconds=config.body_seconds,
            handshake_seconds=config.handshake_seconds,
            max_header_bytes=config.max_header_bytes,
            memory=broker.memory,
            beginnings=TimeShare(is_busy=broker.is_gathering),
        )
        self._tls = ServerTls(
            certificates.cert,
            certificates.key,
            config.client_ca,
            requires_restart=config.http_server == "granian",
        )
        self._serve_https = _http_server(config, self._limits, self._tls)
        self._granted = descriptors.granian_connections(descriptors.limit()) if config.http_server == "granian" else 0
        self._broker = broker
        self._http = HttpApp(broker, sign_in)
        new_resp = partial(
            RespServer, broker, _shown_parameters(config), sign_in, config.max_output_bytes, config.pipeline_seconds
        )
        self._resp = new_resp(routing=None if shard is None else shard.routing())
        self._lag = LoopLag(time.monotonic)
        self._service_manager = ServiceManager(os.environ if shard is None else {})
        self._guests = Guests(lambda user: sign_in is not None and sign_in.is_current(user))
        self._stopping = asyncio.Event()
        self._settling: asyncio.Task[None] | None = None
        self._page: Page | None = None

    async def run(self, https: socket, resp: socket, monitor: socket) -> None:
        """Serve until a signal arrives or the store has failed for good; raises InternalError if a listener fails."""
        loop = cast(AcceptingLoop, asyncio.get_running_loop())
        loop.admit_to_reserve(monitor, self._monitor_limits(), self._guests)
        loop.granted, loop.beginnings = self._granted, self._limits.beginnings
        loop.limits = ConnectionLimits(
            self._config.max_connections, self._config.max_connections_per_address, self._broker.limit_counts
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask_to_stop)
        # Even without users: unhandled, SIGHUP would end the process.
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        admit_hangup()
        self._broker.failed.add_done_callback(lambda _: self._stopping.set())
        stops_listening = [await self._listen_for_resp(loop, resp)]
        if self._shard is not None and self._shard.front is not None:
            stops_listening.append(await self._listen_for_resp(loop, self._shard.front))
        monitoring, shard = self._make_monitoring(), self._shard
        queue: ASGIApp = self._http if shard is None else shard.door(self._broker, self._http, self._http.gate)
        self._page = self._make_page(monitoring, queue, [each.getsockname()[1] for each in (monitor, resp)])
        app: ASGIApp = monitoring if self._page is None else self._page.app
        if shard is not None:
            app = await self._serve_shards(shard, monitoring, monitor.getsockname()[1])
        serving = [
            asyncio.create_task(
                self._serve_https(queue, https, self._certificates.cert, self._certificates.key, self._stopping.wait)
            ),
            asyncio.create_task(self._serve_monitor(app, monitor)),
        ]
        if self._shard is None:
            report_ready(
                self._config, Sockets(https, resp, monitor), self._service_manager, self._broker.memory.max_bytes
            )
        else:
            log.info("the shard is ready", max_memory_mib=self._broker.memory.max_bytes >> 20)
            self._shard.report_ready()
        watching = self._watch()
        await asyncio.wait([asyncio.create_task(self._stopping.wait()), *serving], return_when="FIRST_COMPLETED")
        for task in watching:
            task.cancel()
        was_asked = self._stopping.is_set()
        for stop_listening in stops_listening:
            stop_listening()
        await self._drain(serving)
        if not was_asked:
            raise InternalError("a listener ended by itself; the log says why")

    async def _listen_for_resp(self, loop: AcceptingLoop, sock: socket) -> Callable[[], None]:
        """Listen for clients of RESP; return the function that ends it."""
        server = await loop.create_server(
            self._resp,
            sock=sock,
            ssl=self._tls.context(protocols=()) if self._config.resp_tls else None,
            ssl_handshake_timeout=self._config.handshake_seconds,
        )
        return server.close

    @property
    def _is_monitor_exposed(self) -> bool:
        return not is_loopback(self._config.monitor_host)

    def _monitor_limits(self) -> ConnectionLimits | None:
        """Return the limits of connections to monitoring; on loopback none, so that operators can always connect."""
        if not self._is_monitor_exposed:
            return None
        return ConnectionLimits(MAX_MONITOR_CONNECTIONS, MAX_MONITOR_CONNECTIONS_PER_ADDRESS, self._broker.limit_counts)

    def _make_monitoring(self) -> MonitorApp:
        return MonitorApp(
            self._broker,
            self._sign_in,
            self._limits.refusals,
            [
                RowCollector(REFUSAL_ROWS, self._resp.refusals),
                RowCollector(CERTIFICATE_ROWS, lambda: self._tls.expires_at),
                RowCollector(LAG_ROWS, self._lag),
            ],
            is_exposed=self._is_monitor_exposed,
        )

    async def _serve_shards(self, shard: "Shard", monitoring: MonitorApp, port: int) -> ASGIApp:
        """Serve the other shards; return the application of the monitoring port that shows all of them."""
        own: ASGIApp = monitoring if self._page is None else self._page.app
        parts: dict[str, ASGIApp] = {} if self._page is None else {"page": self._page.parts}
        await shard.serve(self._broker, self._resp, {"queue": self._http, "monitor": own, **parts})
        app = shard.monitor_door(self._broker, own, monitoring.gate)
        return app if self._page is None else shard.page_door(self._broker, app, port)

    def _serve_monitor(self, app: ASGIApp, listener: socket) -> Coroutine[None, None, None]:
        """Serve monitoring, over TLS if other machines can reach it; clients such as kubelet need no certificate."""
        limits = replace(self._limits, is_reserved=True)
        if not self._is_monitor_exposed:
            return serve_plain(app, listener, self._stopping.wait, limits)
        context = self._tls.context(HTTP_PROTOCOLS, requires_client_certificate=False)
        cert, key = self._certificates.cert, self._certificates.key
        recorded = self._guests.recorded(app)
        return serve_https(recorded, listener, cert, key, self._stopping.wait, limits, context=context)

    @property
    def _min_free_bytes(self) -> int:
        """The free space below which publishes are refused."""
        return 0 if self._config.storage == "memory" else self._config.min_free_bytes

    def _make_page(self, monitoring: MonitorApp, queue: ASGIApp, ports: Sequence[int]) -> Page | None:
        """Return the live page, if it is on; `ports` are those of monitoring and of RESP."""
        if not serves_dashboard(self._config):
            return None
        self._broker.overview.begin(self._min_free_bytes)
        facts = partial(self._facts, monitoring, ports, self._broker.clock.now_ms())
        return Page(monitoring, queue, self._broker, self._sign_in, facts, self._shard)

    def _facts(self, monitoring: MonitorApp, ports: Sequence[int], started_at_ms: int) -> "Facts":
        """Return what the page shows of the process, which started at a time in ms since 1970."""
        from miniqueue.server.dashboard.models.facts import Facts  # noqa: PLC0415 - a startup does not wait for it

        config, shard = self._config, self._shard
        about = (started_at_ms, str(config.db.absolute()), shown_settings(config)) if shard is None else shard.about
        broker_started_at_ms, store_path, settings = about
        monitor_port, resp_port = ports
        return Facts(
            name=gethostname(),
            monitor_port=monitor_port,
            resp_port=resp_port,
            resp_tls=config.resp_tls,
            is_exposed=self._is_monitor_exposed,
            sync=config.sync,
            storage=config.storage,
            store_path=store_path,
            started_at_ms=broker_started_at_ms,
            process_started_at_ms=started_at_ms,
            min_free_bytes=self._min_free_bytes,
            rss_bytes=memory_limit.own_bytes,
            loop_lag=self._lag.quantiles_seconds,
            certificate_expires_at=lambda: self._tls.expires_at,
            settings=settings,
            clients=self._resp.listed,
            followers=monitoring.follower_lags,
        )

    def _ask_to_stop(self) -> None:
        """Give consumers time to settle, then stop; on the second signal, stop at once."""
        if self._settling is None:
            self._settling = asyncio.create_task(
                settle_before_stop(self._broker, self._config.settle_seconds, self._resp, self._http)
            )
            waiting = self._settling
            if self._shard is not None:
                waiting = asyncio.create_task(self._shard.settle(self._settling, self._config.settle_seconds))
            waiting.add_done_callback(lambda _: self._stopping.set())
        else:
            self._settling.cancel()

    def _watch(self) -> list[asyncio.Task[None]]:
        """Start the tasks that close idle connections, reload changed files, and watch the loop."""
        tasks = [
            asyncio.create_task(watch("certificate", self._tls.reload_if_changed)),
            asyncio.create_task(watch("users", self._reload_changed_users)),
            asyncio.create_task(self._lag.run()),
            asyncio.create_task(self._service_manager.feed_watchdog()),
        ]
        if self._shard is not None:
            tasks.append(asyncio.create_task(self._shard.watch()))
        if idle_seconds := self._config.idle_seconds:
            idle = IdleWatch(self._resp.all_connections, idle_seconds, self._broker.limit_counts, time.monotonic)
            tasks.append(asyncio.create_task(idle.run()))
        return tasks

    def _reload(self) -> None:
        """Reload users and certificate, on SIGHUP."""
        # Users first: even if the certificate has a problem, a removed user must not stay.
        with self._service_manager.reloading():
            self._reload_users()
            self._tls.reload()
        if self._shard is not None:
            self._shard.report_reloaded()

    def _reload_changed_users(self) -> None:
        if self._users is not None and self._users.has_changed():
            self._reload_users()

    def _reload_users(self) -> None:
        """Reload the users, and disconnect those who were removed or changed."""
        if self._sign_in is None or self._users is None:
            log.info("there are no users to be read again")
            return
        try:
            users = self._users.read()
        except ConfigError as exc:
            log.error("the users stay as they were: their file cannot be used", problems=exc.problems)
            return
        self._sign_in.replace(users)
        self._broker.set_quotas(self._sign_in.quotas)
        with self._broker.leases.dispatcher.many_leave():
            self._resp.cut_off()
            self._http.cut_off()
        log.info("users read again", users=len(users))
        self._broker.notices.report(NoticeKind.USERS_RELOADED, users=len(users))

    async def _drain(self, serving: list[asyncio.Task[None]]) -> None:
        """End every stream and return its leases, within `STOP_SECONDS`; raise the error of a listener, if any."""
        log.info("stopping")
        self._service_manager.stopping()
        self._stopping.set()
        if self._settling is not None:
            self._settling.cancel()
        with self._broker.leases.dispatcher.many_leave():
            self._resp.drain()
            self._http.drain()
        if self._page is not None:
            self._page.drain()
        passed_on = [] if self._shard is None else self._shard.drain()
        _done, hanging = await asyncio.wait([*serving, *passed_on], timeout=STOP_SECONDS)
        for task in hanging:
            log.warning("a listener did not stop in time", seconds=STOP_SECONDS)
            task.cancel()
        outcomes = await asyncio.gather(*serving, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                log.error("a listener failed", error=described(outcome))
        for outcome in outcomes:
            if isinstance(outcome, MiniqueueError):
                raise outcome


def _http_server(config: Config, limits: HttpLimits, tls: ServerTls) -> ServeHttps:
    if config.http_server == "hypercorn":
        return partial(serve_https, limits=limits, context=tls.context(HTTP_PROTOCOLS))
    from miniqueue.server.granian import server  # noqa: PLC0415 - an extra, which may be missing

    return partial(server.serve_https, limits=limits)


def _shown_parameters(config: Config) -> dict[str, str]:
    """Return the parameters of CONFIG GET, with the names that Redis tools use."""
    return {
        "port": str(config.resp_port),
        "dir": str(config.db.absolute()),
        "save": "",
        "appendonly": "no" if config.storage == "memory" else "yes",
        "appendfsync": {"always": "always", "interval": "everysec", "never": "no"}[config.sync],
        "proto-max-bulk-len": str(config.max_message_bytes),
        "databases": "1",
    }
