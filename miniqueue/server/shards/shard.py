"""One shard at work: the doors of its process, its back, and what watches the other shards."""

import asyncio
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson
from starlette.types import ASGIApp

from miniqueue.broker import Broker
from miniqueue.core.settings.placing import Placing
from miniqueue.server.asgi.authorization import AuthMiddleware
from miniqueue.server.cluster.nodes import ONE_NODE, Nodes
from miniqueue.server.config.config import ShownSetting
from miniqueue.server.http.schedules import MAX_MORE_BYTES
from miniqueue.server.http.transactions import MAX_BODY_BYTES
from miniqueue.server.process import descriptors
from miniqueue.server.process.accepting import AcceptingLoop
from miniqueue.server.resp.router import Routing
from miniqueue.server.resp.server import RespServer
from miniqueue.server.shards.back import Answerer, Back
from miniqueue.server.shards.http.door import HttpDoor
from miniqueue.server.shards.http.events import event_routes
from miniqueue.server.shards.http.merging import merging_routes
from miniqueue.server.shards.http.monitor import MonitorDoor
from miniqueue.server.shards.http.owners import Owners
from miniqueue.server.shards.http.parts.acts import task_routes
from miniqueue.server.shards.http.parts.asking import Parts
from miniqueue.server.shards.http.parts.bodies import body_routes
from miniqueue.server.shards.http.parts.routes import SpreadRoutes
from miniqueue.server.shards.http.parts.setting import Setting
from miniqueue.server.shards.http.receiving import Receiving
from miniqueue.server.shards.http.schedules import schedule_routes
from miniqueue.server.shards.http.scopes import MONITOR, PAGE, QUEUE
from miniqueue.server.shards.http.serving import Serving
from miniqueue.server.shards.http.tunnel import Tunnels
from miniqueue.server.shards.links.answering import Answering
from miniqueue.server.shards.links.earlier import KIND as EARLIER
from miniqueue.server.shards.links.earlier import knowing
from miniqueue.server.shards.links.held import HeldByShards
from miniqueue.server.shards.links.part_choice import PERIOD_SECONDS
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.links.scheduling import ORDERS, STEPS, Home, Steps
from miniqueue.server.shards.links.spreading import Spreading, order
from miniqueue.server.shards.parent import READY, RELOADED, SETTLED
from miniqueue.server.shards.resp.door import Door
from miniqueue.server.shards.resp.linked import LinkedConnection
from miniqueue.server.shards.transfers.arriving import arriving
from miniqueue.server.shards.transfers.carrier import Carrier
from miniqueue.server.shards.transfers.sending import Sending

if TYPE_CHECKING:
    from miniqueue.server.dashboard.app import Sharing


class About(NamedTuple):
    """What is shown of the whole broker, by any of its processes.

    Attributes:
      started_at_ms: when the parent started, in ms since 1970.
      store_path: the directory with the stores of all shards.
      settings: the settings of the broker, of which a shard can have a part.
    """

    started_at_ms: int = 0
    store_path: str = ""
    settings: Sequence[ShownSetting] = ()


class Shard:
    """The place of a process among the shards of a broker.

    Args:
      placing: which shard it is.
      paths: the sockets of the backs of all shards.
      back: the listening socket of its own.
      parent: the connection to the parent.
      about: what is shown of the whole broker.
      front: the listening socket for RESP that no other shard has; None: there is none.
      nodes: the shards as clients of RESP see them.

    Attributes:
      peers: the other shards.
      steps: takes the steps by which schedules change and move.
    """

    def __init__(
        self,
        placing: Placing,
        paths: list[Path],
        back: socket.socket,
        parent: socket.socket,
        about: About | None = None,
        *,
        front: socket.socket | None = None,
        nodes: Nodes = ONE_NODE,
    ) -> None:
        self.placing = placing
        self.about = about or About()
        self.front = front
        self._nodes = nodes
        self.peers = Peers(placing, paths)
        max_tunnels = descriptors.limit() // (2 * placing.shard_count)
        self._tunnels = Tunnels(self.peers.connect_http, self.peers.check, max_tunnels)
        self.peers.on_away = self._tunnels.fail
        self._back = back
        self._parent = parent

    def report_ready(self) -> None:
        """Report to the parent that clients can connect."""
        self._parent.send(READY)

    def report_reloaded(self) -> None:
        """Report to the parent that the users and the certificate were read again."""
        self._parent.send(RELOADED)

    async def settle(self, settling: "asyncio.Task[None]", settle_seconds: float) -> None:
        """Return when consumers have settled what they hold in all shards, or may no longer.

        Clients of this process can hold messages of other shards, so it ends none of them before. `settling` waits for
        those of this shard; if it is cancelled, the process stops at once. A shard that stands still is not waited for.
        """
        await asyncio.wait([settling])
        if settling.cancelled():
            return
        self._parent.send(SETTLED)
        with suppress(TimeoutError):
            async with asyncio.timeout(settle_seconds):
                await asyncio.get_running_loop().sock_recv(self._parent, 1)

    def routing(self) -> Routing:
        """Return what the RESP connections of this process get."""
        ids = count(self.placing.next_number(1), self.placing.shard_count)
        return Routing(partial(Door, peers=self.peers), ids, self._nodes)

    async def serve(self, broker: Broker, resp: RespServer, apps: Mapping[str, ASGIApp]) -> asyncio.Server:
        """Serve the other shards: RESP connections of their clients, and requests for the applications of each port."""
        held = HeldByShards(broker.shares, time.monotonic)
        self.peers.report = partial(self._report, held)
        self.spreading = Spreading(broker, self.peers)
        sign_in = resp.shared.sign_in
        self._serving = Serving(apps, broker.memory) if sign_in is None else Serving(apps, broker.memory, sign_in.named)
        assert broker.outbox is not None  # it is one of several
        assert broker.inbox is not None  # the same
        self._carrier = Carrier(broker.outbox, Sending(self.peers))
        self.steps = Steps(broker, self.peers)
        self._schedules = Home(self.placing, self.steps.send, self.peers.check)
        inbox, known = broker.inbox, knowing(broker)
        back = Back(
            {
                "resp": lambda client: LinkedConnection(resp.shared, client),
                "http": lambda _: self._serving(),
                "transfers": lambda source: Answering(arriving(inbox, int(source.name))),
                "spread": lambda _: Answering(self.spreading.obey),
                EARLIER: lambda _: Answering(known),
                ORDERS: lambda _: Answering(self._schedules.obey),
                STEPS: lambda home: self.steps.answering(home.name),
                "ping": lambda other: Answerer(partial(self._hear, held, other.name)),
            }
        )
        loop = asyncio.get_running_loop()
        if isinstance(loop, AcceptingLoop):
            loop.admit_to_reserve(self._back)  # when clients have used up all descriptors, the others must hear of it
        return await loop.create_server(back, sock=self._back)

    def _report(self, held: HeldByShards) -> bytes:
        """Return what the others hear of this shard: what users with quotas have, what clients publish and ask for."""
        peers = self.peers
        report = {"held": held.own(), "accepted": peers.part_choice.report(), "asked": peers.take_choice.report()}
        return orjson.dumps(report)

    def _hear(self, held: HeldByShards, shard: str, said: bytes) -> None:
        """Take what another shard says."""
        report = orjson.loads(said)
        held.take(shard, report["held"])
        self.peers.part_choice.take(int(shard), report["accepted"])
        self.peers.take_choice.take(int(shard), report["asked"])

    async def _follow(self) -> None:
        """Choose parts by what the shards report, until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            self.peers.part_choice.follow()
            self.peers.take_choice.follow()

    def drain(self) -> "set[asyncio.Task[None]]":
        """Return the tasks that serve requests of other shards now, and end after them."""
        return self._serving.drain()

    def close(self) -> None:
        """End the tunnels to other shards that are idle, and the links for steps."""
        self._tunnels.close()
        self.steps.close()
        self.peers.earlier.links.close()
        self.peers.spreading.close()

    def door(self, broker: Broker, app: ASGIApp, gate: AuthMiddleware | None) -> ASGIApp:
        """Return the application of the HTTP port for clients of all shards."""
        owners = self._owners(broker, QUEUE)
        receiving = Receiving(owners, app, broker, self.peers)
        parts = Parts(owners, self.peers, broker)
        shared = {
            **merging_routes(owners, broker.shares.quotas_of),
            **body_routes(
                owners,
                app,
                broker.limit_counts,
                parts,
                max_transaction_bytes=broker.limits.max_transaction_bytes or MAX_BODY_BYTES,
            ),
            **schedule_routes(owners, self.peers, broker.spread_of, 2 * broker.max_message_bytes + MAX_MORE_BYTES),
            **receiving.routes,
            **event_routes(owners),
        }
        setting = Setting(parts, partial(order, self.peers), lambda: broker.spread_topics)
        spread = SpreadRoutes(parts, receiving, setting, broker)
        shared |= task_routes(owners, shared)
        shared["GET", "/leases"] = partial(spread.leases, shared["GET", "/leases"])
        return HttpDoor(app, gate, owners, broker.memory, shared, spread)

    def monitor_door(self, broker: Broker, app: ASGIApp, gate: AuthMiddleware | None) -> ASGIApp:
        """Return the application of the monitoring port that shows all shards."""
        return MonitorDoor(app, gate, self._owners(broker, MONITOR), lambda: broker.spread_topics)

    def page_door(self, broker: Broker, app: ASGIApp, port: int) -> ASGIApp:
        """Return the application of the monitoring port, with this number, that serves the sessions of all shards."""
        from miniqueue.server.shards.page.door import PageDoor  # noqa: PLC0415 - only with the page

        return PageDoor(app, self._owners(broker, MONITOR), broker.memory, port)

    def page_sharing(self, broker: Broker) -> "Sharing":
        """Return how the shards share the page."""
        from miniqueue.server.dashboard.app import Sharing  # noqa: PLC0415 - once the page is asked for
        from miniqueue.server.shards.page.asking import PageShards  # noqa: PLC0415 - the same
        from miniqueue.server.shards.page.door import session_prefix  # noqa: PLC0415 - the same
        from miniqueue.server.shards.page.models import share  # noqa: PLC0415 - the same

        shards = PageShards(self._owners(broker, PAGE), broker.memory)
        return Sharing(partial(share, shards), session_prefix(self.placing.number))

    def _owners(self, broker: Broker, port: str) -> Owners:
        return Owners(self._tunnels, self.placing, broker.memory, port)

    async def watch(self) -> None:
        """Watch the other shards, carry messages to them, and complete what concerns several, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.peers.watch())
            group.create_task(self._carrier.run(self.peers.others()))
            group.create_task(self.spreading.tend())
            group.create_task(self._follow())
            group.create_task(self._schedules.tend())
            group.create_task(self.steps.tend())
