"""What each way to publish and to settle costs: `python -m benchmarks.modes`, half a minute.

One client that waits for each reply, over RESP, on a broker of each sync mode. The ways take turns, round after round;
a time is the median of a round, of that round in which it is the least: what else the disk and the processors have to
do only adds to it.

    publish    µs for each message, and the ratio to one PUBLISH at a time
    settle     µs to receive one message and settle it, and the ratio to ACK
"""

import argparse
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import hiredis

from benchmarks.servers import miniqueue

PAYLOAD = b"x" * 100
TOGETHER = 32
SYNCS = ("always", "interval", "never")
#: The ways that all others are compared with.
BASES = ("PUBLISH", "ACK")


class Client:
    """One connection, on which each run of commands is sent in one piece."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()
        self._ids = count()

    def ask(self, *commands: tuple[bytes, ...]) -> Any:  # noqa: ANN401 - whatever is answered
        """Send commands, wait for all replies, and return the last one; raises the first error among them."""
        self._socket.sendall(b"".join(hiredis.pack_command(command) for command in commands))
        reply: Any = False
        for _ in commands:
            while (reply := self._reader.gets()) is False:
                self._reader.feed(self._socket.recv(1 << 16))
            if isinstance(reply, hiredis.ReplyError):
                raise reply
        return reply

    def publish_with_id(self) -> None:
        """Publish with a dedup id that is new."""
        self.ask((b"PUB", b"t", PAYLOAD, b"DEDUP", b"%d" % next(self._ids)))

    def consume(self, *settle: bytes) -> None:
        """Receive a message and settle it."""
        ((receipt, _, _),) = self.ask((b"RECEIVE", b"t"))
        if settle:
            self.ask((settle[0], b"t", receipt, *settle[1:]))

    def consume_in_transaction(self) -> None:
        """Receive a message and acknowledge it in a transaction."""
        ((receipt, _, _),) = self.ask((b"RECEIVE", b"t"))
        self.ask((b"MULTI",), (b"ACK", b"t", receipt), (b"EXEC",))


#: Does something once; and the number of messages that this is about.
Way = tuple[Callable[[], object], int]


def publishes(client: Client) -> dict[str, Way]:
    """Return the ways to publish."""
    one = (b"PUBLISH", b"t", PAYLOAD)
    return {
        "PUBLISH": (lambda: client.ask(one), 1),
        f"PUBLISH, {TOGETHER} in a pipeline": (lambda: client.ask(*[one] * TOGETHER), TOGETHER),
        f"MPUBLISH of {TOGETHER}": (lambda: client.ask((b"MPUBLISH", b"t", *[PAYLOAD] * TOGETHER)), TOGETHER),
        "PUB … DEDUP": (client.publish_with_id, 1),
        "transaction of 1": (lambda: client.ask((b"MULTI",), one, (b"EXEC",)), 1),
        f"transaction of {TOGETHER}": (lambda: client.ask((b"MULTI",), *[one] * TOGETHER, (b"EXEC",)), TOGETHER),
    }


def settles(client: Client) -> dict[str, Way]:
    """Return the ways to consume one message."""
    return {
        "AUTOACK": (lambda: client.ask((b"RECEIVE", b"t", b"AUTOACK")), 1),
        "ACK": (lambda: client.consume(b"ACK"), 1),
        "ACK … SYNC": (lambda: client.consume(b"ACK", b"SYNC"), 1),
        "ACK in a transaction": (client.consume_in_transaction, 1),
        "no settle": (client.consume, 1),
    }


def micros(way: Way, seconds: float) -> float:
    """Return the median time for each message, measured for about `seconds`."""
    act, message_count = way
    act()
    ends_at = time.perf_counter() + seconds
    times: list[float] = []
    while not times or time.perf_counter() < ends_at:
        began_at = time.perf_counter()
        act()
        times.append(time.perf_counter() - began_at)
    return statistics.median(times) / message_count * 1e6


def table(rounds: Sequence[dict[str, dict[str, float]]], base: str) -> Iterator[str]:
    """Yield the rows of a table; the rounds have the times by sync mode and way."""
    yield "| | " + " | ".join(f"`-sync {sync}`, µs | ratio" for sync in SYNCS) + " |"
    yield "|---|" + "---|---|" * len(SYNCS)
    for way in rounds[0][SYNCS[0]]:
        cells = []
        for sync in SYNCS:
            took, least = (min(each[mode][name] for each in rounds) for mode, name in ((sync, way), ("always", base)))
            cells += [f"{took:.0f}", f"{took / least:.2f}"]
        yield f"| {way} | " + " | ".join(cells) + " |"


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.modes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is measured (5)")
    parser.add_argument("--seconds", type=float, default=0.15, help="how long each way is measured in a round (0.15)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        clients = {}
        for sync in SYNCS:
            (directory := Path(folder) / sync).mkdir()
            server = running.enter_context(miniqueue(directory, "-sync", sync, "-insecure"))
            clients[sync] = Client(server.port)
        for ways, base in ((publishes, BASES[0]), (settles, BASES[1])):
            rounds = [
                {
                    sync: {name: micros(way, options.seconds) for name, way in ways(client).items()}
                    for sync, client in clients.items()
                }
                for _ in range(options.rounds)
            ]
            print("\n".join(table(rounds, base)), end="\n\n")


if __name__ == "__main__":
    main()
