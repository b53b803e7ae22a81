"""What is done at the same time is acknowledged together, by one at a time, and nothing stays behind."""

import asyncio
import threading

import pytest

from miniqueue_client import AsyncClient, AsyncWorker, Message
from miniqueue_client.async_worker import AsyncAckBatcher
from miniqueue_client.worker import AckBatcher


def named(name):
    return Message("t", name, b"")


def test_a_message_alone_is_acknowledged_at_once():
    sent = []
    together = AckBatcher(sent.append)
    together.acknowledge(named("one"))
    together.acknowledge(named("two"))
    assert sent == [[named("one")], [named("two")]]


def test_what_comes_while_another_is_sent_goes_with_the_next_request():
    sent, is_sending, may_go_on = [], threading.Event(), threading.Event()

    def send(messages):
        sent.append(messages)
        is_sending.set()
        may_go_on.wait(60)

    together = AckBatcher(send)
    first = threading.Thread(target=together.acknowledge, args=[named("one")])
    first.start()
    is_sending.wait(60)
    together.acknowledge(named("two"))  # does not wait for the thread that sends
    together.acknowledge(named("three"))
    may_go_on.set()
    first.join(60)
    assert sent == [[named("one")], [named("two"), named("three")]]


def test_after_an_error_that_nobody_expected_the_next_one_sends_again():
    sent = []

    def send(messages):
        sent.append(messages)
        if len(sent) == 1:
            raise MemoryError

    together = AckBatcher(send)
    with pytest.raises(MemoryError):
        together.acknowledge(named("one"))
    together.acknowledge(named("two"))
    assert sent == [[named("one")], [named("two")]]


async def test_what_tasks_have_done_in_one_turn_is_one_request_and_what_comes_meanwhile_the_next():
    sent = []
    is_sending, may_go_on = asyncio.Event(), asyncio.Event()

    async def send(messages):
        sent.append([message.id for message in messages])
        is_sending.set()
        await may_go_on.wait()

    together = AsyncAckBatcher(send)
    async with asyncio.TaskGroup() as tasks:
        for name in "abc":
            tasks.create_task(together.acknowledge(named(name)))
        await is_sending.wait()
        await together.acknowledge(named("d"))  # does not wait for the task that sends
        await together.acknowledge(named("e"))
        may_go_on.set()
    await together.acknowledge(named("f"))
    assert sent == [["a", "b", "c"], ["d", "e"], ["f"]]


async def test_a_task_alone_lets_others_run_once_and_then_sends():
    turns = []

    async def send(_messages):
        turns.append("sent")

    async def count():
        turns.append("turn")
        await asyncio.sleep(0)
        turns.append("turn")

    await asyncio.gather(AsyncAckBatcher(send).acknowledge(named("a")), count())
    assert turns.index("sent") <= 2


async def test_after_a_task_that_was_cancelled_the_next_one_sends_again():
    sent = []

    async def send(messages):
        sent.append([message.id for message in messages])
        if len(sent) == 1:
            raise asyncio.CancelledError

    together = AsyncAckBatcher(send)
    with pytest.raises(asyncio.CancelledError):
        await together.acknowledge(named("a"))
    await together.acknowledge(named("b"))
    assert sent == [["a"], ["b"]]


async def test_a_worker_whose_task_is_cancelled_before_it_acknowledges_has_its_hand_free():
    handled = asyncio.Event()

    async def handle(_message):
        handled.set()

    async with AsyncClient("redis://127.0.0.1:1") as client:
        worker = AsyncWorker(client, "t", handle)
        worker._work.begin(named("a"))
        working = asyncio.create_task(worker._work_on(named("a")))
        await handled.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert worker._work.free_count == 1  # or nothing would be received any more
