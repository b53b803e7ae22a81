"""What the broker reports to systemd: when it is ready, reloads, and stops, and that its event loop runs.

    NOTIFY_SOCKET      path of a datagram socket; @name is one in Linux's abstract namespace
    WATCHDOG_USEC      systemd kills the process if it hears nothing for this long
    WATCHDOG_PID       the process that this applies to; if it is missing, the one that reads it

    READY=1   RELOADING=1 MONOTONIC_USEC=…   STOPPING=1   WATCHDOG=1      a datagram each, a line for each assignment

Another program that sets these variables, such as a container runtime, hears the same. Without them, nothing is sent.

Source: sd_notify(3), sd_watchdog_enabled(3).
"""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from socket import AF_UNIX, SOCK_DGRAM, socket

import structlog

log = structlog.get_logger()

#: A datagram waits if the queue of the receiver is full, which holds up the loop: systemd empties it in milliseconds.
SEND_SECONDS = 1.0
_MICROSECONDS = re.compile("[1-9][0-9]{0,18}")


class ServiceManager:
    """Reports the states of this process.

    Args:
      environ: the variables of the process.
      monotonic_ns: CLOCK_MONOTONIC, in nanoseconds.
    """

    def __init__(self, environ: Mapping[str, str], monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._watchdog_seconds = _watchdog_seconds(environ) if self._address else None
        self._monotonic_ns = monotonic_ns

    def ready(self) -> None:
        """Report that clients can connect, or that a reload is complete."""
        self._send("READY=1")

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Report a reload that lasts until the block exits."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={self._monotonic_ns() // 1000}")
        try:
            yield
        finally:
            self.ready()

    def stopping(self) -> None:
        """Report the beginning of a stop, from which on no watchdog runs."""
        self._send("STOPPING=1")

    async def feed_watchdog(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Report that the event loop runs, twice in each interval of the watchdog; return if there is no watchdog."""
        while self._watchdog_seconds is not None:
            self.feed()
            await sleep(self._watchdog_seconds / 2)

    def feed(self) -> None:
        """Report once that this process runs, if there is a watchdog."""
        if self._watchdog_seconds is not None:
            self._send("WATCHDOG=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket(AF_UNIX, SOCK_DGRAM) as sender:
                sender.settimeout(SEND_SECONDS)
                sender.sendto(state.encode(), self._address)
        except OSError as error:
            log.warning("the service manager cannot be notified", state=state.partition("\n")[0], error=str(error))


def _address(name: str) -> bytes:
    """Return the address of a socket; empty if there is none that this process can reach."""
    if name.startswith("/"):
        return os.fsencode(name)
    if name.startswith("@"):
        return b"\0" + os.fsencode(name[1:])
    if name:
        log.warning("NOTIFY_SOCKET ignored; must begin with / or @", value=name)
    return b""


def _watchdog_seconds(environ: Mapping[str, str]) -> float | None:
    """Return the interval of the watchdog of this process; None if there is none."""
    interval, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if pid not in ("", str(os.getpid())) or not interval:
        return None
    if not _MICROSECONDS.fullmatch(interval):
        log.warning("WATCHDOG_USEC ignored; must be a number of microseconds above 0", value=interval)
        return None
    return int(interval) / 1e6
