"""Workers against a real broker: they settle by outcome, hold on to what they work on, and stop in good order."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from miniqueue_client import AsyncClient, AsyncWorker, Client, Delay, RefusedError, Reject, Worker, work
from miniqueue_client.calls.errors import refusal

pytestmark = pytest.mark.acceptance

POLL_SECONDS = 0.05


def run_worker(kind, url, topic, handle, **options):
    """Run a worker until the handler, which gets its message and a way to stop, has stopped it."""
    options = {"poll_seconds": POLL_SECONDS, **options}
    if kind == "threads":
        with Client(url) as client:
            worker = Worker(client, topic, lambda message: handle(message, worker.stop), **options)
            worker.run()
        return

    async def call(message):
        return handle(message, worker.stop)

    async def scenario():
        nonlocal worker
        async with AsyncClient(url) as client:
            worker = AsyncWorker(client, topic, call, **options)
            await worker.run()

    worker = None
    asyncio.run(scenario())


@pytest.fixture(params=["threads", "tasks"])
def kind(request):
    return request.param


def test_a_worker_of_several_topics_settles_each_message_in_its_own(kind, resp_broker, client, topic):
    topics = [f"{topic}.a", f"{topic}.b", f"{topic}.more.c"]
    for name in topics:
        client.publish_many(name, ["1", "2", "3"])
    seen = Counter()

    def handle(message, stop):
        seen[message.topic] += 1
        if seen.total() == 9:
            stop()

    options = {"concurrency": 4, "patterns": [f"{topic}.more.*"], "lease_seconds": timedelta(minutes=1)}
    run_worker(kind, resp_broker.url, topics[:2], handle, **options)
    assert seen == dict.fromkeys(topics, 3)
    assert [client.stats(name)["acknowledged"] for name in topics] == [3, 3, 3]


@pytest.mark.parametrize("sync", [False, True])
def test_what_a_handler_does_settles_its_message(kind, resp_broker, client, topic, sync):
    client.publish_many(topic, ["done", "fails once", "bad", "later"])
    seen = Counter()

    def handle(message, stop):
        seen[message.text] += 1
        if seen.total() == 5:
            stop()
        if message.text == "bad":
            raise Reject("it is bad")
        if message.text == "later":
            raise Delay(60)
        if message.text == "fails once" and message.counts.nacks == 0:
            raise ValueError(message.text)

    run_worker(kind, resp_broker.url, topic, handle, sync=sync)
    assert seen == {"done": 1, "fails once": 2, "bad": 1, "later": 1}
    figures = client.stats(topic)
    assert (figures["delayed"], figures["ready"], figures["leased"], figures["acknowledged"]) == (1, 0, 0, 2)
    [dead] = client.peek(f"{topic}.dlq")
    assert dead.origin.reason == "it is bad"


@pytest.mark.parametrize("ends_with", [SystemExit(3), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_a_handler_that_exits_returns_its_message_and_ends_the_worker(kind, resp_broker, client, topic, ends_with):
    client.publish_many(topic, ["one", "two"])
    seen = []

    def handle(message, _stop):
        seen.append(message.text)
        if message.text == "two":
            raise ends_with

    with pytest.raises(type(ends_with)) as raised:
        run_worker(kind, resp_broker.url, topic, handle, lease_seconds=3600)
    assert raised.value is ends_with
    assert seen == ["one", "two"]
    figures = client.stats(topic)
    assert (figures["ready"], figures["leased"], figures["acknowledged"]) == (1, 0, 1)


def test_a_handler_that_exits_lets_the_others_finish(resp_broker, client, topic):
    client.publish_many(topic, ["exits", "goes on"])
    both_began, has_left = threading.Barrier(2, timeout=60), threading.Event()

    def handle(message):
        both_began.wait()
        if message.text == "exits":
            has_left.set()
            raise SystemExit(3)
        has_left.wait(60)

    with Client(resp_broker.url) as own, pytest.raises(SystemExit):
        Worker(own, topic, handle, concurrency=2, lease_seconds=3600, poll_seconds=POLL_SECONDS).run()
    figures = client.stats(topic)
    assert (figures["leased"], figures["acknowledged"]) == (0, 1)


def test_a_handler_that_awaits_what_was_cancelled_has_failed(kind, resp_broker, client, topic):
    client.publish(topic, "x")
    seen = []

    def handle(message, stop):
        seen.append(message.counts.nacks)
        if message.counts.nacks:
            stop()
        else:
            raise asyncio.CancelledError

    run_worker(kind, resp_broker.url, topic, handle, lease_seconds=3600)
    assert seen == [0, 1]


def wait_for_extensions(client, message):
    """Return when the broker has extended the lease of a message several times."""
    while [step.event for step in client.trace(message.topic, message.id)].count("extended") < 3:
        threading.Event().wait(0.01)


def test_a_lease_lasts_as_long_as_its_handler(kind, resp_broker, client, topic, monkeypatch):
    monkeypatch.setattr(work, "EXTENSIONS_PER_LEASE", 600)  # often, of a lease that a machine cannot sleep through
    client.create_topic(topic, trace="true")
    client.publish_many(topic, ["slow"])
    seen = []

    def handle_in_thread(message, stop):
        seen.append(message)
        wait_for_extensions(client, message)
        stop()

    async def handle_in_task(message):
        seen.append(message)
        await asyncio.to_thread(wait_for_extensions, client, message)
        worker.stop()

    worker = None
    if kind == "threads":
        run_worker(kind, resp_broker.url, topic, handle_in_thread, lease_seconds=30, concurrency=2)
    else:

        async def scenario():
            nonlocal worker
            async with AsyncClient(resp_broker.url) as own:
                worker = AsyncWorker(
                    own, topic, handle_in_task, lease_seconds=30, concurrency=2, poll_seconds=POLL_SECONDS
                )
                await worker.run()

        asyncio.run(scenario())
    assert len(seen) == 1
    assert client.stats(topic)["acknowledged"] == 1


def refuse_extensions(own, call):
    """Refuse to extend leases of the topic that is extended first."""
    if call.words[0] == "EXTEND":
        own.refused = own.refused or call.words[1]
        if call.words[1] == own.refused:
            raise refusal("NOPERM no right to EXTEND")


class RefusingClient(Client):
    refused = None

    def execute(self, call):
        refuse_extensions(self, call)
        return super().execute(call)


class RefusingAsyncClient(AsyncClient):
    refused = None

    async def execute(self, call):
        refuse_extensions(self, call)
        return await super().execute(call)


def test_the_refused_extension_of_one_topic_does_not_keep_those_of_others(
    kind, resp_broker, client, topic, monkeypatch
):
    monkeypatch.setattr(work, "EXTENSIONS_PER_LEASE", 600)
    topics = [f"{topic}.a", f"{topic}.b"]
    for name in topics:
        client.create_topic(name, trace="true")
        client.publish(name, "x")
    both_began, may_end = threading.Barrier(2, timeout=60), threading.Event()
    options = {"concurrency": 2, "lease_seconds": 30, "poll_seconds": POLL_SECONDS}
    own = worker = None

    def hold(message):
        both_began.wait()
        while own.refused is None:
            threading.Event().wait(0.01)
        if message.topic != own.refused:
            wait_for_extensions(client, message)
            may_end.set()
        may_end.wait(60)

    def hold_in_thread(message):
        hold(message)
        worker.stop()

    async def hold_in_task(message):
        await asyncio.to_thread(hold, message)
        worker.stop()

    async def scenario():
        nonlocal own, worker
        async with RefusingAsyncClient(resp_broker.url) as own:
            worker = AsyncWorker(own, topics, hold_in_task, **options)
            await worker.run()

    if kind == "tasks":
        asyncio.run(scenario())
    else:
        with RefusingClient(resp_broker.url) as own:
            worker = Worker(own, topics, hold_in_thread, **options)
            worker.run()
    assert [client.stats(name)["acknowledged"] for name in topics] == [1, 1]


def test_threads_work_at_the_same_time(resp_broker, client, topic):
    client.publish_many(topic, ["a", "b", "c"])
    together = threading.Barrier(3)

    def handle(_message, stop):
        together.wait(60)
        stop()

    run_worker("threads", resp_broker.url, topic, handle, concurrency=3)
    assert client.stats(topic)["acknowledged"] == 3


def test_a_worker_waits_for_a_broker_that_is_gone(kind, start_resp_broker, topic):
    broker = start_resp_broker()
    seen = []

    def handle(message, stop):
        seen.append(message.text)
        if len(seen) == 1:
            broker.kill()
            broker.start()
            client.publish_many(topic, ["after"])
        if message.text == "after":
            stop()

    with Client(broker.url) as client:
        client.publish_many(topic, ["before"])
        run_worker(kind, broker.url, topic, handle)
        assert seen == ["before", "before", "after"]  # the lease of the first ended with the broker
        assert client.length(topic) == 0


def test_a_request_is_answered_with_what_the_handler_returns(kind, resp_broker, topic):
    def handle(message, stop):
        stop()
        return message.text.upper()

    with Client(resp_broker.url) as asking, ThreadPoolExecutor(1) as thread:
        answer = thread.submit(asking.request, topic, "hello", timeout_seconds=60)
        run_worker(kind, resp_broker.url, topic, handle)
        assert answer.result() == b"HELLO"


def test_what_a_handler_cannot_mean_ends_no_worker(kind, resp_broker, client, topic):
    client.publish(topic, "soon")
    seen = []

    def handle(message, stop):
        seen.append(message.text)
        if seen == ["soon"]:
            raise Delay("soon")
        if message.text == "stop":
            stop()
        elif seen.count("ask") == 1:
            return "\ud800"  # no character, and so no reply
        return "told"

    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(run_worker, kind, resp_broker.url, topic, handle, lease_seconds=1.0)
        try:
            assert client.request(topic, "ask", timeout_seconds=60) == b"told"  # even if a lease expires before
        finally:
            client.publish(topic, "stop")
        working.result()
    assert seen.count("soon") >= 2


def test_a_request_that_nobody_answers_is_refused_after_its_time(client, topic):
    with pytest.raises(RefusedError, match="TIMEOUT"):
        client.request(topic, "hello", timeout_seconds=0.1)


def test_a_reply_to_what_is_no_request_is_refused(client, topic):
    client.publish_many(topic, ["x"])
    with pytest.raises(RefusedError, match="NOREQUEST"):
        client.reply(topic, client.receive(topic)[0], "y")


def test_a_refusal_for_good_ends_the_worker(kind, resp_broker):
    with pytest.raises(RefusedError, match="BADTOPIC"):
        run_worker(kind, resp_broker.url, "two words", lambda message, stop: None)


PROGRAM = """
import asyncio, sys, time
from miniqueue_client import AsyncClient, AsyncWorker, Client, Worker

kind, url, topic = sys.argv[1:]

def handle(message):
    print("begun", flush=True)
    while not worker._is_stopping:  # the signal has come
        time.sleep(0.01)
    print("done", flush=True)

async def handle_async(message):
    print("begun", flush=True)
    while not worker._is_stopping:
        await asyncio.sleep(0.01)
    print("done", flush=True)

async def main():
    global worker
    async with AsyncClient(url) as client:
        worker = AsyncWorker(client, topic, handle_async)
        await worker.run()

if kind == "threads":
    with Client(url) as client:
        worker = Worker(client, topic, handle)
        worker.run()
else:
    asyncio.run(main())
print("stopped", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_it_finish_what_it_has_in_hand(kind, resp_broker, client, topic, number):
    client.publish_many(topic, ["one", "two"])
    arguments = [sys.executable, "-c", PROGRAM, kind, resp_broker.url, topic]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout.readline() == "begun\n"
            os.kill(process.pid, number)
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (output, process.returncode) == ("done\nstopped\n", 0)
    figures = client.stats(topic)
    assert (figures["acknowledged"], figures["ready"], figures["leased"]) == (1, 1, 0)


async def test_a_program_can_handle_the_signals_itself(resp_broker, client, topic):
    before, seen = signal.getsignal(signal.SIGTERM), []
    client.publish_many(topic, ["one", "two"])

    def handle(_message):
        seen.append(signal.getsignal(signal.SIGTERM))
        worker.stop()

    async def handle_in_task(_message):
        seen.append(signal.getsignal(signal.SIGTERM))
        async_worker.stop()

    worker = Worker(client, topic, handle)
    worker.run(handle_signals=False)
    async with AsyncClient(resp_broker.url) as async_client:
        async_worker = AsyncWorker(async_client, topic, handle_in_task)
        await async_worker.run(handle_signals=False)
    assert seen == [before, before]
