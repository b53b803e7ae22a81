"""The status of a copy that follows, over HTTP on loopback: `/livez`, `/readyz`, and `/metrics`.

A thread answers, since the loop of the follower waits for the broker and for the disk.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from miniqueue.errors import ListenError
from miniqueue.server.process.metric_rows import MetricRow, RowCollector
from miniqueue.tools.following import Status

HOST = "127.0.0.1"
STATUS_ROWS: tuple[MetricRow[Status], ...] = (
    MetricRow(
        "copy_lag_seconds", "gauge", "How old the moment is of which this copy is complete.", lambda it: it.lag_seconds
    ),
    MetricRow("copy_lag_bytes", "gauge", "Size of the writes that this copy lacks, at most.", lambda it: it.lag_bytes),
    MetricRow(
        "copy_follows", "gauge", "Whether the broker answers: 1, or 0.", lambda it: float(it.phase == "following")
    ),
)


@contextmanager
def served(status: Status, port: int) -> Iterator[int]:
    """Serve a status on a port while the block runs; yield the port, which the system chooses if it is 0.

    Raises ListenError.
    """
    registry = CollectorRegistry()
    registry.register(RowCollector(STATUS_ROWS, status))

    class Handler(BaseHTTPRequestHandler):
        """Answers the requests of one connection."""

        timeout = 10.0

        def do_GET(self) -> None:
            """Answer one request."""
            if self.path == "/metrics":
                self._answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
            elif self.path in ("/livez", "/readyz"):
                self._answer(200, orjson.dumps(_shown(status)), "application/json")
            else:
                self._answer(404, b"{}", "application/json")

        def log_message(self, *_arguments: object) -> None:
            """Log nothing."""

        def _answer(self, code: int, body: bytes, content_type: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    try:
        server = ThreadingHTTPServer((HOST, port), Handler)
    except (OSError, OverflowError) as exc:
        raise ListenError(HOST, port, f"{exc} (-status-port)") from exc
    with server:
        threading.Thread(target=server.serve_forever, name="miniqueue-status", daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def _shown(status: Status) -> dict[str, object]:
    return {
        "status": status.phase,
        "change": status.change,
        "lag_seconds": status.lag_seconds,
        "lag_bytes": status.lag_bytes,
    }
