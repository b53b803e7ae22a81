"""Repairs and limits of Hypercorn 0.18.0: what one client does costs that client, and nobody else.

    module        what it repairs or limits
    buffer        a client with a closed window fills our memory
    frames        floods of frames that serve no request; headers without measure; frames longer than allowed; a goodbye
                  leaves the requests in front of it without replies; what nobody needs is kept for good
    stream        a body that is not read blocks its connection; one that does not come is waited for; a reply without a
                  body is two frames
    http2         more streams than allowed end those that are there; DATA after an early reply kills the connection,
                  and then SIGTERM does not end the process; a connection without streams is not taken for idle
    http2_sending who disconnects leaves the request's task behind; a reply broken off leaves its stream open; every
                  frame is written, and encrypted, on its own
    blocks        headers that come again and again are taken apart each time, and those of replies put together
    headers       headers that are in order are checked byte by byte, in Python
    turns         a tree of priorities that are ignored decides who sends
    http1         what h11 accepts and another reader may understand otherwise; an upgrade to HTTP/2 without a check
    deadlines     how long a client may take for each
    limits        how the connections come by what an operator has set

It overrides methods and replaces names in modules of Hypercorn, h2 and hpack, so it refuses every other version of
Hypercorn, and a test those of the others. Knows Hypercorn, h2, hpack and h11; does not know the applications.
"""

import logging
from importlib.metadata import version

import h2.stream
import hpack.hpack
from hypercorn import protocol
from hypercorn.protocol import h2 as hypercorn_h2
from hypercorn.protocol import h11 as hypercorn_h11

from miniqueue.server.h2guard import headers
from miniqueue.server.h2guard.buffer import GuardedBuffer
from miniqueue.server.h2guard.http1 import GuardedH11
from miniqueue.server.h2guard.http2 import CONNECTION_WINDOW_BYTES, GuardedH2
from miniqueue.server.h2guard.limits import GuardedConfig, HttpLimits
from miniqueue.server.h2guard.stream import GuardedStream

__all__ = ["CONNECTION_WINDOW_BYTES", "HYPERCORN_VERSION", "GuardedConfig", "HttpLimits", "install"]

HYPERCORN_VERSION = "0.18.0"


class _SilentLogger(logging.Logger):
    """Takes what nobody reads: hpack says something 18 times for each request."""

    def debug(self, msg: object, *args: object, **kwargs: object) -> None:
        pass


_SILENT = _SilentLogger("hpack.hpack")


def install() -> None:
    """Make Hypercorn use the repaired classes; safe to call again.

    Raises RuntimeError when Hypercorn is not the version that was repaired.
    """
    if (found := version("hypercorn")) != HYPERCORN_VERSION:
        raise RuntimeError(f"the repairs are for hypercorn {HYPERCORN_VERSION}, found {found}")
    for module, name, repaired in (
        (hypercorn_h2, "StreamBuffer", GuardedBuffer),
        (hypercorn_h2, "HTTPStream", GuardedStream),
        (hypercorn_h11, "HTTPStream", GuardedStream),
        (protocol, "H2Protocol", GuardedH2),
        (protocol, "H11Protocol", GuardedH11),
        (h2.stream, "validate_headers", headers.validate),
        (h2.stream, "normalize_outbound_headers", headers.normalize_sent),
        (h2.stream, "validate_outbound_headers", headers.validate_sent),
        (hpack.hpack, "log", _SILENT),
    ):
        setattr(module, name, repaired)
