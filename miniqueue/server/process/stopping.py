"""The grace period before a stop: consumers can settle their leased messages before connections are closed.

    SIGTERM ─▶ waiting requests are answered; publishes get DRAINING ─▶ no leases, or the time is over ─▶ the stop

Knows neither signals nor connections.
"""

import asyncio
from typing import Protocol

import structlog

from miniqueue.broker import Broker

#: Interval of checks for remaining leases.
CHECK_SECONDS = 0.02

log = structlog.get_logger()


class Listener(Protocol):
    """A listener whose clients can wait for messages or replies."""

    def answer_waiting(self) -> None:
        """Answer the waiting requests now."""
        ...


async def settle_before_stop(broker: Broker, settle_seconds: float, *listeners: Listener) -> None:
    """Reject publishes and answer waiting requests; return when no message is leased, or after `settle_seconds`."""
    broker.admin.rest()
    for listener in listeners:
        listener.answer_waiting()
    loop = asyncio.get_running_loop()
    latest = loop.time() + settle_seconds
    if leased_count := broker.admin.leased_count:
        log.info("waiting for what consumers hold", messages=leased_count, seconds=settle_seconds)
    while broker.admin.leased_count and loop.time() < latest:  # noqa: ASYNC110 - an event would cost time in every settle
        await asyncio.sleep(CHECK_SECONDS)
