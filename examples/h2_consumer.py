"""Consume a topic over HTTP/2 with the `h2` library and a socket, nothing else: a model for clients in other languages.

    curl --cacert certs/ca.pem https://localhost:8080/publish/letters -d hello
    .venv/bin/python examples/h2_consumer.py --topic letters

One request, both directions open: JSON strings up, JSON lines down. See docs/protocol.md#subscribe.
"""

import argparse
import base64
import json
import socket
import ssl
import sys
from collections.abc import Iterator
from urllib.parse import quote

import h2.config
import h2.connection
import h2.events


class Subscription:
    """One stream on one connection."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._socket = connect(options)
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self._h2.initiate_connection()
        self._stream_id = self._h2.get_next_available_stream_id()
        self._h2.send_headers(
            self._stream_id,
            [
                (":method", "POST"),
                (":scheme", "https"),
                (":authority", f"{options.host}:{options.port}"),
                (":path", f"/subscribe/{quote(options.topic, safe='')}"),
            ],
        )
        self.command("INIT")

    def command(self, word: str) -> None:
        """Send a JSON string; the request is never ended."""
        self._h2.send_data(self._stream_id, json.dumps(word).encode())
        self._socket.sendall(self._h2.data_to_send())

    def lines(self) -> Iterator[bytes]:
        """Yield what the broker sends, line by line, until it ends the stream."""
        rest = b""
        for part in self._parts():
            *whole, rest = (rest + part).split(b"\n")
            yield from whole

    def _parts(self) -> Iterator[bytes]:
        while received := self._socket.recv(65_536):
            for event in self._h2.receive_data(received):
                match event:
                    case h2.events.ResponseReceived(headers=headers):
                        if dict(headers)[b":status"] != b"200":
                            sys.exit(f"refused: {dict(headers)}")
                    case h2.events.DataReceived(data=data, flow_controlled_length=length):
                        self._h2.acknowledge_received_data(length, self._stream_id)  # or the broker must stop
                        yield data
                    case h2.events.StreamEnded() | h2.events.StreamReset() | h2.events.ConnectionTerminated():
                        return
            self._socket.sendall(self._h2.data_to_send())


def connect(options: argparse.Namespace) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=options.cafile)
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(socket.create_connection((options.host, options.port)), server_hostname=options.host)


def consume(options: argparse.Namespace) -> None:
    subscription = Subscription(options)
    for line in subscription.lines():
        answer = json.loads(line)
        if "error" in answer:
            sys.exit(answer["error"])
        print(base64.b64decode(answer.get("msg", "")).decode("utf-8", "replace"), flush=True)
        subscription.command("ACK")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--cafile", default="certs/ca.pem")
    parser.add_argument("--topic", default="letters")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        consume(parse_options())
    except KeyboardInterrupt:
        sys.exit(130)
