"""What a worker does with a message, without a broker."""

import logging

import pytest

from miniqueue.errors import RequestError
from miniqueue_client import Delay, Message, Reject
from miniqueue_client.calls.errors import refusal
from miniqueue_client.calls.outcomes import MAX_REASON_BYTES
from miniqueue_client.work import Work, settlement, tell_failure, tell_settled

MESSAGE = Message("t", "0-1", b"x", receipt="r-1")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, ("ACK", "t", "r-1")),
        (Delay(1.5), ("DACK", "t", "r-1", "1.5")),
        (Reject("bad"), ("REJECT", "t", "r-1", "bad")),
        (ValueError("no"), ("NACK", "t", "r-1")),
    ],
)
def test_an_outcome_settles_its_message(error, words):
    assert settlement(MESSAGE, None, error).words == words


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, ("ACK", "t", "r-1", "SYNC")),
        (Delay(1.5), ("DACK", "t", "r-1", "SYNC", "1.5")),
        (Reject("bad"), ("REJECT", "t", "r-1", "SYNC", "bad")),
        (ValueError("no"), ("NACK", "t", "r-1", "SYNC")),
    ],
)
def test_with_sync_each_outcome_waits_for_the_disk_and_a_reply_does_not(error, words):
    assert settlement(MESSAGE, None, error, sync=True).words == words
    request = Message("t", "0-1", b"x", receipt="r-1", reply_to="w-1")
    assert settlement(request, "5", None, sync=True).words == ("REPLY", "t", "r-1", "5")


def test_what_a_handler_returns_is_the_reply_where_one_is_asked_for():
    request = Message("t", "0-1", b"x", receipt="r-1", reply_to="w-1")
    assert settlement(request, "5", None).words == ("REPLY", "t", "r-1", "5")
    assert settlement(request, None, None).words == ("ACK", "t", "r-1")
    assert settlement(request, "5", ValueError()).words == ("NACK", "t", "r-1")
    assert settlement(MESSAGE, "5", None).words == ("ACK", "t", "r-1")
    call = settlement(request, b"5", None)
    assert (call.result_of(b"OK"), call.result_of(refusal("GONE x")), call.result_of(refusal("NOLEASE x"))) == (
        [True],
        [True],
        [False],
    )


def test_a_reason_is_cut_between_characters():
    reason = Reject("ä" * MAX_REASON_BYTES).reason
    assert reason == "ä" * (MAX_REASON_BYTES // 2)


def test_a_worker_asks_for_as_much_as_it_has_hands_free():
    work = Work("t", group="g", concurrency=3, lease_seconds=60, poll_seconds=2)
    work.begin(MESSAGE)
    assert work.next_receive().words == ("RECEIVE", "t", "GROUP", "g", "COUNT", 2, "WAIT", "2", "LEASE", "60")
    work.end(MESSAGE)
    work.end(MESSAGE)
    assert work.free_count == 3


def test_the_leases_of_all_in_hand_are_extended_at_once():
    work = Work("t", concurrency=3, lease_seconds=60)
    assert work.extensions() == []
    work.begin(MESSAGE)
    work.begin(Message("t", "0-2", b"y", receipt="r-2"))
    assert [call.words for call in work.extensions()] == [("EXTEND", "t", "r-1", "r-2", "60")]
    assert work.extend_every_seconds == 20


def test_a_worker_of_several_topics_receives_from_any_and_extends_by_topic():
    work = Work(("t", "u"), concurrency=3, lease_seconds=60, patterns=("jobs.*",))
    assert work.next_receive().words == (
        *("RECEIVEANY", "COUNT", 3, "WAIT", "1", "LEASE", "60", "PATTERN", "jobs.*", "TOPICS", "t", "u"),
    )
    for message in (MESSAGE, Message("jobs.eu", "0-2", b"y", receipt="r-2"), Message("t", "0-3", b"z", receipt="r-3")):
        work.begin(message)
    assert [call.words for call in work.extensions()] == [
        ("EXTEND", "t", "r-1", "r-3", "60"),
        ("EXTEND", "jobs.eu", "r-2", "60"),
    ]
    assert Work("t", patterns=("u*",)).next_receive().words[-4:] == ("PATTERN", "u*", "TOPICS", "t")


@pytest.mark.parametrize("concurrency", [0, 10_000])
def test_a_worker_has_a_hand_and_no_more_than_a_receive_can_fill(concurrency):
    with pytest.raises(RequestError):
        Work("t", concurrency=concurrency)
    with pytest.raises(RequestError):  # the receipts of all, and SYNC, must fit in one command
        Work("t", concurrency=concurrency and concurrency - 1, sync=True)


def test_failures_are_told_and_decisions_are_not(caplog):
    caplog.set_level(logging.WARNING)
    for error in (None, Delay(1), Reject("bad")):
        tell_failure(MESSAGE, error)
    tell_settled([MESSAGE], [True])
    assert caplog.messages == []
    tell_failure(MESSAGE, ValueError("no"))
    tell_settled([MESSAGE], [False])
    assert caplog.messages == [
        "message 0-1 of t failed: ValueError('no')",
        "message 0-1 of t: its lease was over before it was settled",
    ]


def test_a_member_says_often_that_it_is_there():
    assert Work("t", lease_seconds=60).extend_every_seconds == 20
    member = Work("t", lease_seconds=60, member="m")
    assert member.extend_every_seconds == 3
    assert member.next_receive().words[2:4] == ("MEMBER", "m")
