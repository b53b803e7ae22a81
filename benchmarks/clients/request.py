"""Ask and be answered over RESP, as many round trips a second as the server allows: REQUEST, RECEIVE, REPLY."""

import argparse
import asyncio
import json
from time import perf_counter

import hiredis
import uvloop

TOPIC = "requests"
PAYLOAD = b"0123456789"


class Peer:
    """One connection."""

    def __init__(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self._reader, self._writer = streams
        self._replies = hiredis.Reader()

    def say(self, *words: str | int | bytes) -> None:
        """Send a command."""
        self._writer.write(hiredis.pack_command(words))

    async def hear(self) -> object:
        """Return the next reply."""
        while (reply := self._replies.gets()) is False:
            self._replies.feed(await self._reader.read(1 << 16))
        return reply


async def connect(port: int) -> Peer:
    return Peer(await asyncio.open_connection("127.0.0.1", port))


async def work(port: int, is_over: asyncio.Event) -> None:
    """Reply to requests with what they say, until it is over."""
    peer = await connect(port)
    while not is_over.is_set():
        peer.say("RECEIVE", TOPIC, "COUNT", 100, "WAIT", 1)
        messages = await peer.hear()
        assert isinstance(messages, list)
        for receipt, payload, _ in messages:
            peer.say("REPLY", TOPIC, receipt, payload)
        for _ in messages:
            assert await peer.hear() == b"OK"


async def ask(port: int, is_over: asyncio.Event, seconds: list[float]) -> None:
    """Ask, wait for the reply, and ask again; note how long each took."""
    peer = await connect(port)
    while not is_over.is_set():
        begun = perf_counter()
        peer.say("REQUEST", TOPIC, PAYLOAD)
        assert await peer.hear() == PAYLOAD
        seconds.append(perf_counter() - begun)


async def measure(port: int, *, requesters: int, workers: int, seconds: float) -> dict[str, float]:
    """Return round trips a second, and how long half and 99 of 100 of them took at most, in ms."""
    is_over, are_answered, taken = asyncio.Event(), asyncio.Event(), list[float]()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(workers):
            tasks.create_task(work(port, are_answered))
        askers = [tasks.create_task(ask(port, is_over, taken)) for _ in range(requesters)]
        await asyncio.sleep(seconds)
        is_over.set()
        await asyncio.gather(*askers)  # before the workers end, since the last requests need replies
        are_answered.set()
    taken.sort()
    p50, p99 = (taken[int(len(taken) * part)] * 1000 for part in (0.5, 0.99))
    return {"rate": len(taken) / seconds, "p50_ms": p50, "p99_ms": p99}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--requesters", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    args = parser.parse_args()
    load = measure(args.port, requesters=args.requesters, workers=args.workers, seconds=args.seconds)
    print(json.dumps(uvloop.run(load)))


if __name__ == "__main__":
    main()
