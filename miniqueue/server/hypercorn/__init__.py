"""Repairs and limits of Hypercorn 0.18.0: a misbehaving client harms only itself.

Read `listening` first (sockets, and how Hypercorn is started), then `closing` (one connection), `http2` and `http1`
(its protocols), `stream` (one request), and the rest as needed:

    module         what it repairs or limits
    listening      requests per connection and read timeouts, which drop requests in progress
    closing        closing a connection waits for its client; one that its client closed stays until the keep-alive ends
    stream         an unread body blocks its connection; a body that does not arrive is awaited without limit; a reply
                   without a body is two frames
    http2          streams beyond the limit end the others; DATA after an early reply kills the connection, and then
                   SIGTERM does not end the process; a connection without streams is not seen as idle; a disconnect
                   leaves the request's task behind; an aborted reply leaves its stream open; every frame is written,
                   and encrypted, on its own
    sending        a client with a closed window fills our memory; a tree of priorities that are ignored decides which
                   stream sends
    frames         floods of frames that serve no request; headers without limit; frames longer than allowed; GOAWAY
                   leaves earlier requests without replies; useless state is kept forever
    header_blocks  identical blocks of headers are decoded, and encoded, each time
    headers        valid headers are checked byte by byte, in Python
    http1          requests that h11 accepts and another reader may understand differently; an upgrade to HTTP/2 without
                   a check
    limits         deadlines of clients; how connections get the limits that the operator has set

This room overrides methods and replaces names in modules of Hypercorn, h2, and hpack. So it rejects every other version
of Hypercorn, and a test rejects other versions of the rest. Knows Hypercorn, h2, hpack, and h11; must not import the
applications (`http`, `monitor`).
"""

import logging
from importlib.metadata import version

import h2.stream
import hpack.hpack
from hypercorn import protocol
from hypercorn.protocol import h2 as hypercorn_h2
from hypercorn.protocol import h11 as hypercorn_h11

from miniqueue.server.hypercorn import headers
from miniqueue.server.hypercorn.http1 import GuardedH11
from miniqueue.server.hypercorn.http2 import CONNECTION_WINDOW_BYTES, GuardedH2
from miniqueue.server.hypercorn.limits import GuardedConfig, HttpLimits
from miniqueue.server.hypercorn.sending import GuardedBuffer
from miniqueue.server.hypercorn.stream import GuardedStream

__all__ = ["CONNECTION_WINDOW_BYTES", "HYPERCORN_VERSION", "GuardedConfig", "HttpLimits", "install"]

HYPERCORN_VERSION = "0.18.0"


class _SilentLogger(logging.Logger):
    """Discards debug messages without formatting them: hpack logs 18 for each request."""

    def debug(self, msg: object, *args: object, **kwargs: object) -> None:
        pass


_SILENT = _SilentLogger("hpack.hpack")


def install() -> None:
    """Make Hypercorn use the repaired classes; safe to call again.

    Raises RuntimeError if Hypercorn is not the version that was repaired.
    """
    if (installed := version("hypercorn")) != HYPERCORN_VERSION:
        raise RuntimeError(f"unsupported version of hypercorn: {installed}; must be {HYPERCORN_VERSION}")
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
