"""The loop of `miniqueue sub`, with a client and a clock that the test moves."""

import signal

import pytest

from miniqueue.commands.messages.consuming import Consumer, Order
from miniqueue.commands.messages.parallel import run_all, shares_of
from miniqueue.commands.messages.stopping import Stopping, stopping_on_signals
from miniqueue.commands.shell.outage import Outage
from miniqueue.errors import ConnectError, DisconnectedError, ServerError
from miniqueue.interrupts import Interrupted
from miniqueue_client import Counts, Message


class FakeClient:
    """Replies to receives with what the test has prepared, and records what is settled."""

    def __init__(self, *replies, is_settled=True):
        self.replies = list(replies)
        self.calls = []
        self._is_settled = is_settled

    def receive(self, _topic, *, count, wait_seconds, **_options):
        self.calls.append(("receive", count, wait_seconds))
        if not self.replies:
            return []
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def ack(self, _topic, *messages):
        self.calls.append(("ack", *(message.id for message in messages)))
        return [self._is_settled] * len(messages)

    def nack(self, _topic, *messages, reason, seconds):
        self.calls.append(("nack", *(message.id for message in messages), reason, seconds))

    def extend(self, _topic, *messages, seconds):
        self.calls.append(("extend", *(message.id for message in messages), seconds))

    @property
    def settles(self):
        return [call for call in self.calls if call[0] != "receive"]


class NoPause(Stopping):
    """Does not wait."""

    def wait(self, _seconds):
        pass


def message(number, nacks=0):
    return Message("orders", f"0-{number}", b"", receipt=f"r{number}", counts=Counts(nacks=nacks))


def consumer(client, handle, stopping=None, monotonic=lambda: 0.0, **order):
    warnings = []
    made = Consumer(
        client,
        Order("orders", **order),
        handle,
        stopping or NoPause(),
        warnings.append,
        Outage(warnings.append),
        monotonic=monotonic,
    )
    return made, warnings


def done(_message, _extend):
    return ""


def test_messages_that_were_received_together_are_acknowledged_together():
    client = FakeClient([message(0), message(1)], [message(2)])
    consumer(client, done, batch_count=2, ends_when_empty=True)[0].run()
    assert client.settles == [("ack", "0-0", "0-1"), ("ack", "0-2")]
    assert client.calls[0] == ("receive", 2, 0)


def test_no_more_is_received_than_is_to_be_handled():
    client = FakeClient([message(0), message(1)], [message(2)])
    consumer(client, done, batch_count=2, max_count=3)[0].run()
    assert [call for call in client.calls if call[0] == "receive"] == [("receive", 2, 1.0), ("receive", 1, 1.0)]


def test_slow_messages_are_acknowledged_meanwhile_and_the_leases_of_the_others_extended():
    clock = iter(range(0, 1000, 20))
    client = FakeClient([message(0), message(1), message(2)])
    consumer(client, done, batch_count=3, ends_when_empty=True, monotonic=lambda: float(next(clock)))[0].run()
    assert client.settles == [
        ("ack", "0-0"),
        ("extend", "0-1", "0-2", 30.0),
        ("ack", "0-1"),
        ("extend", "0-2", 30.0),
        ("ack", "0-2"),
    ]


def test_a_reader_that_has_ended_gets_what_it_has_read_and_the_rest_is_returned():
    def handle(message, _extend):
        if message.id == "0-1":
            raise BrokenPipeError
        return ""

    client = FakeClient([message(0), message(1), message(2)])
    with pytest.raises(BrokenPipeError):
        consumer(client, handle, batch_count=3)[0].run()
    assert client.settles == [("ack", "0-0"), ("nack", "0-1", "0-2", "", None)]


def test_a_signal_lets_the_message_in_hand_be_finished_and_returns_the_others():
    stopping = NoPause()

    def handle(_message, _extend):
        stopping.ask(signal.SIGTERM)
        return ""

    client = FakeClient([message(0), message(1)])
    consumer(client, handle, stopping, batch_count=2)[0].run()
    assert client.settles == [("ack", "0-0"), ("nack", "0-1", "", None)]
    with pytest.raises(Interrupted):
        stopping.raise_if_asked()


@pytest.mark.parametrize(("nacks", "seconds"), [(0, 1.0), (3, 8.0), (100, 3600.0)])
def test_until_empty_delays_what_fails_longer_each_time(nacks, seconds):
    client = FakeClient([message(0, nacks)])
    made, warnings = consumer(client, lambda *_: "exit code 3", ends_when_empty=True)
    made.run()
    assert client.settles == [("nack", "0-0", "exit code 3", seconds)]
    assert warnings == ["message 0-0 of orders: exit code 3; returned"]
    assert made.failed_count == 1


def test_a_failure_is_returned_as_the_topic_is_set_or_after_a_time():
    for retry_seconds in (None, 5.0):
        client = FakeClient([message(0)])
        consumer(client, lambda *_: "exit code 3", max_count=1, retry_seconds=retry_seconds)[0].run()
        assert client.settles == [("nack", "0-0", "exit code 3", retry_seconds)]


def test_what_is_settled_already_is_not_acknowledged():
    client = FakeClient([message(0)])
    consumer(client, lambda *_: None, max_count=1)[0].run()
    assert client.settles == []


@pytest.mark.parametrize(
    "error", [ConnectError("down"), DisconnectedError("gone"), ServerError("draining", code="DRAINING")]
)
def test_a_broker_that_has_answered_before_is_waited_for(error):
    client = FakeClient([message(0)], error, [message(1)])
    made, warnings = consumer(client, done, max_count=2)
    made.run()
    assert client.settles == [("ack", "0-0"), ("ack", "0-1")]
    assert warnings == [f"{error}; waiting for the broker"]


def test_the_same_error_is_said_once_until_the_broker_replies():
    down, gone = ConnectError("down."), DisconnectedError("gone")
    client = FakeClient([message(0)], gone, down, down, down, [], down, down, [message(1)])
    made, warnings = consumer(client, done, max_count=2)
    made.run()
    assert warnings == [f"{text}; waiting for the broker" for text in ("gone", "down", "down")]


@pytest.mark.parametrize("replies", [[ConnectError("down")], [[message(0)], ServerError("no", code="NOPERM")]])
def test_a_broker_that_never_answered_or_refuses_is_an_error(replies):
    with pytest.raises((ConnectError, ServerError)):
        consumer(FakeClient(*replies), done)[0].run()


def test_an_expired_lease_is_said():
    client = FakeClient([message(0)], is_settled=False)
    made, warnings = consumer(client, done, max_count=1)
    made.run()
    assert warnings == ["message 0-0 of orders: its lease has expired; it can be delivered again"]


def test_messages_outside_a_span_are_acknowledged_and_not_handled():
    handled = []

    def handle(message, _extend):
        handled.append(message.id)
        return ""

    client = FakeClient([message(0), message(1)], [message(2)], [message(3)])
    answers = iter([False, True])
    consumer(
        client,
        handle,
        batch_count=2,
        ends_when_empty=True,
        accepts=lambda message: message.id == "0-0",
        is_over=lambda: next(answers),
    )[0].run()
    assert handled == ["0-0"]
    assert client.settles == [("ack", "0-0", "0-1"), ("ack", "0-2"), ("ack", "0-3")]


@pytest.mark.parametrize(
    ("count", "consumer_count", "shares"),
    [(None, 2, [None, None]), (7, 3, [3, 2, 2]), (2, 5, [1, 1]), (6, 3, [2, 2, 2]), (5, 1, [5])],
)
def test_consumers_share_the_messages_that_are_to_be_handled(count, consumer_count, shares):
    assert shares_of(count, consumer_count) == shares


def test_consumers_end_when_one_of_them_fails():
    stopping = NoPause()
    failing, _ = consumer(FakeClient(ServerError("no", code="NOPERM")), done, stopping)
    waiting, _ = consumer(FakeClient(), done, stopping)
    with pytest.raises(ServerError, match="no"):
        run_all([failing, waiting], stopping, lambda: None)
    stopping.raise_if_asked()  # no signal has arrived


def test_a_second_signal_that_comes_with_the_first_has_its_former_effect():
    former = signal.signal(signal.SIGTERM, lambda *_: asked.append("former"))
    asked = []
    try:
        with stopping_on_signals() as stopping:
            on_signal = signal.getsignal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            on_signal(signal.SIGTERM, None)
            assert (stopping.is_asked, asked) == (True, ["former"])
    finally:
        signal.signal(signal.SIGTERM, former)
