"""Consume over one stream of HTTP/2 in both directions: commands up, messages down."""

import argparse
import asyncio
import json
import ssl
from typing import cast

import h2.connection
import h2.events
import orjson
import uvloop

from benchmarks.clients.countdown import Countdown

#: A window that never fills within a load, so that the reader is never waited for.
WINDOW_BYTES = 2**30
STREAM = 1


class Duplex(asyncio.Protocol):
    """One connection with one stream on it.

    Without prefetch it settles each message with `"ACK"`; with it, all that came in one read by their receipts.
    """

    def __init__(self, countdown: Countdown, path: str) -> None:
        self._countdown = countdown
        self._path = path
        self._h2 = h2.connection.H2Connection()
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the stream and ask for the first message."""
        self._transport = cast(asyncio.Transport, transport)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(WINDOW_BYTES)
        headers = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", self._path)]
        self._h2.send_headers(STREAM, headers)
        self._h2.increment_flow_control_window(WINDOW_BYTES, STREAM)
        self._say(b'"INIT"\n')

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the server has closed the connection."""
        self._countdown.fail(RuntimeError(f"the server closed the connection: {exc}"))

    def _say(self, command: bytes) -> None:
        self._h2.send_data(STREAM, command)
        self._transport.write(self._h2.data_to_send())

    def data_received(self, data: bytes) -> None:
        """Settle all messages that came."""
        content = self._rest + b"".join(self._parts(data))
        *lines, self._rest = content.split(b"\n")
        messages = [orjson.loads(line) for line in lines]
        errors = [message["error"] for message in messages if "error" in message]
        if errors:
            self._countdown.fail(RuntimeError(errors[0]))
        elif messages and self._countdown.take(len(messages)):
            self._say(_settle(messages))
        self._transport.write(self._h2.data_to_send())

    def _parts(self, data: bytes) -> list[bytes]:
        parts = []
        for event in self._h2.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                self._h2.acknowledge_received_data(event.flow_controlled_length, STREAM)
                parts.append(event.data)
            elif isinstance(event, h2.events.ResponseReceived) and dict(event.headers).get(b":status") != b"200":
                self._countdown.fail(RuntimeError(f"refused: {event.headers[0]}"))
            elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset | h2.events.ConnectionTerminated):
                self._countdown.fail(RuntimeError(f"the server ended it: {type(event).__name__}"))
        return parts


def _settle(messages: list[dict[str, str]]) -> bytes:
    if "receipt" not in messages[0]:
        return b'"ACK"\n' * len(messages)
    return f'"ACK {" ".join(message["receipt"] for message in messages)}"\n'.encode()


async def consume(port: int, topic: str, *, ca: str, count: int, prefetch: int) -> dict[str, float]:
    """Take and settle `count` messages on one stream; return the rate."""
    countdown = Countdown(count)
    context = ssl.create_default_context(cafile=ca)
    context.set_alpn_protocols(["h2"])
    path = f"/subscribe/{topic}" + (f"?prefetch={prefetch}" if prefetch else "")
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: Duplex(countdown, path), "localhost", port, ssl=context)
    return await countdown.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--ca", required=True, help="PEM of the authority to trust")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--prefetch", type=int, default=0)
    args = parser.parse_args()
    load = consume(args.port, args.topic, ca=args.ca, count=args.count, prefetch=args.prefetch)
    print(json.dumps(uvloop.run(load)))


if __name__ == "__main__":
    main()
