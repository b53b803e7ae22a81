"""What is done at the same time is acknowledged together, by one thread at a time, and nothing stays behind."""

import threading

import pytest

from miniqueue.client import Message
from miniqueue.client.settling import Together


def named(name):
    return Message("t", name, b"")


def test_a_message_alone_is_acknowledged_at_once():
    sent = []
    together = Together(sent.append)
    together.acknowledge(named("one"))
    together.acknowledge(named("two"))
    assert sent == [[named("one")], [named("two")]]


def test_what_comes_while_another_is_sent_goes_with_the_next_request():
    sent, is_sending, may_go_on = [], threading.Event(), threading.Event()

    def send(messages):
        sent.append(messages)
        is_sending.set()
        may_go_on.wait(10)

    together = Together(send)
    first = threading.Thread(target=together.acknowledge, args=[named("one")])
    first.start()
    is_sending.wait(10)
    together.acknowledge(named("two"))  # does not wait for the thread that sends
    together.acknowledge(named("three"))
    may_go_on.set()
    first.join(10)
    assert sent == [[named("one")], [named("two"), named("three")]]


def test_after_an_error_that_nobody_expected_the_next_one_sends_again():
    sent = []

    def send(messages):
        sent.append(messages)
        if len(sent) == 1:
            raise MemoryError

    together = Together(send)
    with pytest.raises(MemoryError):
        together.acknowledge(named("one"))
    together.acknowledge(named("two"))
    assert sent == [[named("one")], [named("two")]]
