"""Workers of the Python client on a spread topic."""

import asyncio

from miniqueue_client import AsyncClient, AsyncWorker, Client, Message, Outgoing, Worker
from tests.acceptance.shards.conftest import SHARDS

PARTS = 2 * SHARDS
COUNT, KEYS = 60, 7


def work_through(port: int, topic: str) -> None:
    """Publish messages with keys, and handle each once, in the order of its key; then delete the topic."""
    handled: list[tuple[bytes, int]] = []
    with Client(f"redis://127.0.0.1:{port}") as client:
        client.create_topic(topic, spread=PARTS, key_max_concurrency=1)
        client.publish_each(topic, [Outgoing(b"%d" % number, key=str(number % KEYS)) for number in range(COUNT)])

        def handle(message: Message) -> None:
            handled.append((message.key, int(message.payload)))
            if len(handled) == COUNT:
                worker.stop()

        worker = Worker(client, topic, handle, concurrency=4, poll_seconds=0.2)
        worker.run(handle_signals=False)
        assert sorted(number for _, number in handled) == [*range(COUNT)]
        for key in {key for key, _ in handled}:
            numbers = [number for of, number in handled if of == key]
            assert numbers == sorted(numbers)
        assert client.length(topic) == 0
        client.delete_topic(topic)
        assert topic not in client.topics()


async def work_through_with_tasks(port: int, topic: str) -> None:
    """Publish messages at the same time, and handle each once."""
    handled: list[int] = []
    async with AsyncClient(f"redis://127.0.0.1:{port}") as client:
        await client.create_topic(topic, spread=PARTS)
        publishes = [client.publish(topic, b"%d" % number, key=str(number % KEYS)) for number in range(COUNT)]
        assert len(set(await asyncio.gather(*publishes))) == COUNT

        async def handle(message: Message) -> None:
            handled.append(int(message.payload))
            if len(handled) == COUNT:
                worker.stop()

        worker = AsyncWorker(client, topic, handle, concurrency=8, poll_seconds=0.2)
        await worker.run(handle_signals=False)
        assert sorted(handled) == [*range(COUNT)]
        assert await client.length(topic) == 0
