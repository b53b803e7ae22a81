"""Lets consumers settle what they hold, before a stop ends their connections.

    SIGTERM ─▶ who waits is answered; publishes get DRAINING ─▶ nothing is held, or time is over ─▶ the stop

Knows neither signals nor connections.
"""

import asyncio
from typing import Protocol

import structlog

from miniqueue.broker import Broker

#: Whether they still hold something is looked at as often.
LOOK_SECONDS = 0.02

log = structlog.get_logger()


class Listener(Protocol):
    """Somebody whose clients may wait for messages or replies."""

    def answer_waiting(self) -> None:
        """Have them answered now."""
        ...


async def rest(broker: Broker, settle_seconds: float, *listeners: Listener) -> None:
    """Return when nobody holds a message any more, or when it has taken `settle_seconds`."""
    broker.resting.begin()
    for listener in listeners:
        listener.answer_waiting()
    loop = asyncio.get_running_loop()
    latest = loop.time() + settle_seconds
    if leased_count := broker.resting.leased_count:
        log.info("waiting for what consumers hold", messages=leased_count, seconds=settle_seconds)
    while broker.resting.leased_count and loop.time() < latest:  # noqa: ASYNC110 - every settle would have to tell
        await asyncio.sleep(LOOK_SECONDS)
