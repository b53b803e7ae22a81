"""Acts on many messages: one call in a pipe, a task on a terminal."""

import io
import sys
import threading
from contextlib import contextmanager

import pytest

from miniqueue.commands.shell import acting
from miniqueue.commands.shell.acting import act_on
from miniqueue.errors import ServerError
from miniqueue_client import Selection, Task
from miniqueue_client.calls.values import Group


class FakeClient:
    """Begins one task, and records what else is asked."""

    def __init__(self, task: Task | None = None):
        self.task = task
        self.calls: list[tuple[object, ...]] = []

    def act_on(self, act, topic, _selection, *, limit, **order):
        self.calls.append(("act_on", act, topic, limit, order))
        return 5

    def begin_task(self, act, topic, _selection, *, limit, **order):
        self.calls.append(("begin_task", act, topic, limit, order))
        return "7"

    def find_task(self, task_id):
        assert task_id == "7"
        if self.task is None:
            raise KeyboardInterrupt
        return self.task

    def cancel_task(self, task_id):
        self.calls.append(("cancel_task", task_id))


def task(status, count, error=""):
    return Task("7", "orders", "redrive", status, count, count, None, None, 1, 2, error)


def redrive(client):
    return act_on(client, "redriving", "redrive", "orders", Selection(), 9, per_second=2.0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_in_a_pipe_it_is_one_call():
    client = FakeClient()
    assert redrive(client) == 5
    assert client.calls == [("act_on", "redrive", "orders", 9, {"per_second": 2.0})]


def test_on_a_terminal_it_is_a_task(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    client = FakeClient(task("done", 4))
    assert redrive(client) == 4
    assert client.calls == [("begin_task", "redrive", "orders", 9, {"per_second": 2.0})]


def test_a_task_that_fails_is_an_error_with_the_number_of_messages(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(ServerError) as caught:
        redrive(FakeClient(task("failed", 1, "LIMIT the topic is full")))
    assert str(caught.value) == "the broker refused after 1 message: LIMIT the topic is full"
    assert caught.value.code == "LIMIT"


def test_an_interrupt_cancels_the_task(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    client = FakeClient()
    with pytest.raises(KeyboardInterrupt):
        redrive(client)
    assert client.calls[-1] == ("cancel_task", "7")


class FakePurge:
    """Removes messages in three steps, each of which is counted before the next one begins."""

    def __init__(self, *counts: int):
        self.counts = list(counts)
        self.was_counted = threading.Event()

    def groups(self, topic):
        assert topic == "orders"
        self.was_counted.set()
        return [Group("audit", ready=self.counts[0], leased=50), Group("default", leased=50, delayed=90)]

    def purge(self, _topic, **_options):
        while len(self.counts) > 1:
            self.counts.pop(0)
            self.was_counted.clear()
            assert self.was_counted.wait(60)
        return 9


@pytest.mark.parametrize(
    ("state", "group", "total_count"), [(None, "audit", 9), ("ready", None, 9), (None, None, 99), ("delayed", None, 90)]
)
def test_a_purge_shows_how_many_messages_it_has_removed(monkeypatch, state, group, total_count):
    monkeypatch.setattr(acting, "_POLL_SECONDS", 0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    shown = []

    @contextmanager
    def progress(title, total):
        assert (title, total) == ("purging", total_count)
        yield shown.append

    monkeypatch.setattr(acting, "progress", progress)
    assert acting.purge(FakePurge(9, 5, 6, 0), "orders", state=state, group=group) == 9
    assert sum(shown) == (0 if state == "delayed" else 9)
    assert min(shown) == 0  # messages that are published meanwhile do not move the bar back


def test_a_purge_in_a_pipe_counts_nothing():
    client = FakePurge(9)
    assert acting.purge(client, "orders") == 9
    assert not client.was_counted.is_set()
