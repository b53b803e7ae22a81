"""What the client does on every Python that it supports: run as a program, by an interpreter that has no broker.

    python tests/client/package/any_python.py redis://127.0.0.1:6379 8080 certs/ca.pem

It must run on Python 3.10, and raises an exception if anything is not as it should be.
"""

import asyncio
import pickle
import sys
from datetime import timedelta

from miniqueue_client import (
    AsyncClient,
    AsyncWorker,
    Client,
    Delay,
    DisconnectedError,
    Message,
    RefusedError,
    Selection,
    Worker,
    connect,
    message_calls,
)
from miniqueue_client.calls import topics as topic_calls

VERSION = "python{}.{}".format(*sys.version_info)


def use_blocking(url: str) -> None:
    """Publish, receive, settle, search, and work with threads."""
    topic = f"{VERSION}-blocking"
    with Client(url) as client:
        with client.transaction() as transaction:
            transaction.publish(topic, "one", key="k", ttl_seconds=timedelta(hours=1))
            transaction.publish_many(topic, ["two"])
        assert len(transaction.results) == 2
        client.execute_all([message_calls.publish(topic, "three")])
        assert client.search(topic, Selection(contains="thr")).scanned == 3
        assert client.act_on("delete", topic, Selection(contains="thr"), dry_run=True) == 1
        [refused] = client.execute_all([topic_calls.set_topic(topic, colour="red")])
        assert isinstance(refused, RefusedError)
        assert pickle.loads(pickle.dumps(refused)).code == "BADSETTING"
        [first] = client.receive(topic, lease_seconds=60)
        assert (first.text, first.published_at.tzinfo is not None) == ("one", True)
        assert client.ack(topic, first) == [True]
        done: list[str] = []

        def handle(message: Message) -> None:
            if message.text == "two" and message.counts.dacks == 0:
                raise Delay(0)
            done.append(message.text)
            if len(done) == 2:
                worker.stop()

        worker = Worker(client, topic, handle, concurrency=2)
        worker.run()
        assert sorted(done) == ["three", "two"]
        assert pickle.loads(pickle.dumps(client)).length(topic) == 0


async def use_asyncio(url: str) -> None:
    """Publish, work with tasks, cancel a receive that waits, and cancel a worker."""
    topic = f"{VERSION}-asyncio"
    async with AsyncClient(url) as client:
        await client.publish_many(topic, ["one", "two", "three"])
        done: list[str] = []

        async def handle(message: Message) -> None:
            if message.text == "two" and message.counts.nacks == 0:
                cancelled = asyncio.ensure_future(asyncio.sleep(60))
                cancelled.cancel()
                await cancelled  # the handler has failed, and was not cancelled itself
            done.append(message.text)
            if len(done) == 3:
                worker.stop()

        worker = AsyncWorker(client, topic, handle, concurrency=3)
        await worker.run()
        assert sorted(done) == ["one", "three", "two"]
        assert await client.length(topic) == 0

        waiting = asyncio.ensure_future(client.receive(topic, wait_seconds=60))
        await client.ping()
        waiting.cancel()
        assert [type(each) for each in await asyncio.gather(waiting, return_exceptions=True)] == [
            asyncio.CancelledError
        ]
        await cancel_worker(client, topic)


async def cancel_worker(client: AsyncClient, topic: str) -> None:
    """Cancel a worker whose handler waits: the handler is cancelled too."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def handle(_message: Message) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await client.publish(topic, "four")
    running = asyncio.ensure_future(AsyncWorker(client, topic, handle).run())
    await begun.wait()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert ended.is_set()


async def use_http2(port: int, cafile: str) -> None:
    """Publish, receive, and subscribe over HTTP/2."""
    topic = f"{VERSION}-http2"
    async with await connect("localhost", port, cafile=cafile) as client:
        await client.publish(topic, "Grüße".encode())
        async with client.transaction() as transaction:
            transaction.publish(topic, b"\xff", headers={"name": "ö"})
        assert len([one async for one in client.publish_lines(topic, [b"three", b"\xfe"])]) == 2
        received = await client.receive(topic, count=2)
        assert [message.payload for message in received] == ["Grüße".encode(), b"\xff"]
        assert received[1].header("name") == "ö"
        assert await client.ack(topic, *received, sync=True) == [True, True]
        async with client.subscribe(topic) as subscription:
            assert (await anext(subscription)).payload == b"three"
            subscription.nack(reason="ä")
            assert (await anext(subscription)).payload == b"three"
    try:
        await client.publish(topic, b"late")
    except DisconnectedError:
        return
    raise AssertionError("a client that is closed has published")


if __name__ == "__main__":
    use_blocking(sys.argv[1])
    asyncio.run(use_asyncio(sys.argv[1]))
    asyncio.run(use_http2(int(sys.argv[2]), sys.argv[3]))
    print(VERSION, "done")
