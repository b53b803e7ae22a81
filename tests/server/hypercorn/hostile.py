"""A server to be attacked: on TLS or without, on a loop whose time a test can let pass at once."""

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from hyperframe.frame import DataFrame

from miniqueue.server.asgi.refusals import Refusals
from miniqueue.server.hypercorn import HttpLimits
from miniqueue.server.hypercorn.listening import serve_https, serve_plain
from tests.loops import CalmLoop
from tests.server.hypercorn.raw_http2 import RawConnection, RawHttp2, connect_raw, raw_http2
from tests.serving import Served, serving

#: A look comes once a second; what is due after 10 s is seen at the latest at 11.
ONE_LOOK_SECONDS = 1.01
#: Longer than any leap; the test's own limit is in real time.
PATIENCE_SECONDS = 1e6

on_both = pytest.mark.parametrize("is_tls", [True, False], ids=["TLS", "plain"])


class LeapingLoop(CalmLoop):
    """An event loop on which time can pass at once: its clock is a calm one and what was leapt over."""

    leapt_seconds = 0.0

    def time(self) -> float:
        return super().time() + self.leapt_seconds


async def leap(seconds: float) -> None:
    """Advance the time in steps of a second; all tasks run in between."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LeapingLoop)
    while seconds > 0:
        loop.leapt_seconds += min(seconds, 1.0)
        seconds -= 1.0
        for _ in range(20):
            await asyncio.sleep(0)


def run_leaping(scenario) -> None:
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        runner.run(scenario())


@dataclass
class Victim:
    """A server, and what it has refused."""

    served: Served
    cafile: str | None
    refusals: Refusals
    peers: list[RawConnection] = field(default_factory=list)

    @property
    def app(self):
        return self.served.app

    def http2(self, settings=None, *, begins=True):
        return raw_http2(self.served.port, self.cafile, settings, begins=begins)

    async def raw(self, protocol: str = "http/1.1") -> RawConnection:
        peer = await connect_raw(self.served.port, self.cafile, protocol)
        self.peers.append(peer)
        return peer

    async def say(self, data: bytes) -> bytes:
        """Say something on a connection of its own; return what comes until the server ends it."""
        peer = await self.raw()
        peer.write(data)
        return await peer.until_over()

    def refused(self, reason: str) -> int:
        return self.refusals.counts.get(reason, 0)


@asynccontextmanager
async def victim(certificates, app=None, *, is_tls: bool, stall_seconds: float = 30.0, limits=None, **options):
    """Serve `app`, or the real one, while the block runs; `limits` are others than the usual ones."""
    limits = HttpLimits(Refusals(time.monotonic), stall_seconds, **(limits or {}))

    async def serve(app, listener, cert, key, trigger):
        if is_tls:
            await serve_https(app, listener, cert, key, trigger, limits)
        else:
            await serve_plain(app, listener, trigger, limits)

    async with serving(certificates, app, serve=serve, patience_seconds=PATIENCE_SECONDS, **options) as served:
        attacked = Victim(served, served.cafile if is_tls else None, limits.refusals)
        try:
            yield attacked
        finally:
            for peer in attacked.peers:
                peer.transport.abort()


async def publish(client: RawHttp2, stream_id: int, topic: str = "t", payload: bytes = b"x") -> int:
    """Publish; return the status."""
    client.send(
        client.post(stream_id, path=f"/publish/{topic}"), DataFrame(stream_id, data=payload, flags=["END_STREAM"])
    )
    return await client.status(stream_id)
