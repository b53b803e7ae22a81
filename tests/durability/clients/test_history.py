"""The checker finds each kind of fault that is planted in a history, and accepts what a crash may do."""

from itertools import count

import pytest

from tests.durability.clients.events import Act, Crash, Deliver, Drained, Event, Fail, Gone, Invoke, Ok, Stop, Unknown
from tests.durability.clients.history import Checker, check
from tests.durability.report import BAD, Report

NEW: dict[str, int] = {}


class Story:
    """A history in the making; each step logs its events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._ops = count(1)
        self._now = 0.0

    def ask(
        self,
        act: Act,
        *ids: int,
        by: str = "p",
        topic: str = "t",
        delay_seconds: float = 0.0,
        is_synced: bool = False,
    ) -> int:
        op = next(self._ops)
        self.events.append(Invoke(op, by, act, topic, ids, self._now, delay_seconds, is_synced))
        return op

    def publish(self, *ids: int, by: str = "p", seqs: tuple[int, ...] = ()) -> "Story":
        return self.add(Ok(self.ask(Act.PUBLISH, *ids, by=by), seqs))

    def try_to_publish(self, *ids: int) -> "Story":
        return self.add(Unknown(self.ask(Act.PUBLISH, *ids)))

    def settle(
        self, act: Act, *ids: int, by: str = "c", delay_seconds: float = 0.0, is_synced: bool = False
    ) -> "Story":
        return self.add(Ok(self.ask(act, *ids, by=by, delay_seconds=delay_seconds, is_synced=is_synced)))

    def ack(self, *ids: int, by: str = "c") -> "Story":
        return self.settle(Act.ACK, *ids, by=by)

    def deliver(
        self, *ids: int | None, to: str = "c", marks: dict[str, int] | None = NEW, topic="t", reader=""
    ) -> "Story":
        for id_ in ids:
            self.add(Deliver(to, topic, id_, marks, self._now, reader))
        return self

    def consume(self, *ids: int, by: str = "c") -> "Story":
        return self.deliver(*ids, to=by).ack(*ids, by=by)

    def wait(self, seconds: float) -> "Story":
        self._now += seconds
        return self

    def add(self, *events: Event) -> "Story":
        self.events += events
        return self

    def report(self) -> Report:
        return check([*self.events, Drained("t")])


def faults(story: Story) -> dict[str, int]:
    report = story.report()
    assert len(report.findings) == sum(report.counts[kind] for kind in BAD)
    return {kind: report.counts[kind] for kind in BAD if report.counts[kind]}


# --- what may be ------------------------------------------------------------------------------------------------


def test_a_queue_that_works_has_no_faults():
    story = Story().publish(1, 2).publish(3).consume(1, 2, 3)
    assert faults(story) == {}
    said = "confirmed=3 unknown=0 delivered=3 acknowledged=3 forgotten=0 deleted=0 crashes=0"
    assert story.report().line().startswith(said)


@pytest.mark.parametrize("is_there", [True, False])
def test_an_unknown_publish_may_be_there_or_not(is_there):
    story = Story().try_to_publish(1, 2).add(Crash())
    assert faults(story.consume(1, 2) if is_there else story) == {}


def test_a_crash_may_forget_an_ack_that_no_later_publish_confirmed():
    story = Story().publish(1).consume(1).add(Crash()).consume(1)
    assert faults(story) == {}
    assert story.report().counts["forgotten"] == 1


def test_a_publish_begun_before_the_ack_was_answered_confirms_nothing():
    story = Story().publish(1).deliver(1)
    op = story.ask(Act.PUBLISH, 2)
    story.ack(1).add(Ok(op), Crash()).consume(1, 2)
    assert faults(story) == {}


def test_an_ack_whose_answer_got_lost_may_have_been_carried_out_or_not():
    story = Story().publish(1).deliver(1)
    story.ask(Act.ACK, 1, by="c")
    story.add(Gone("c"))
    assert faults(story) == {}
    assert faults(story.consume(1, by="d")) == {}


def test_an_ack_with_sync_whose_answer_got_lost_may_have_been_carried_out_or_not():
    story = Story().publish(1).deliver(1)
    story.ask(Act.ACK, 1, by="c", is_synced=True)
    story.add(Gone("c"), Crash())
    assert faults(story) == {}
    assert faults(story.consume(1, by="d")) == {}


def test_what_was_out_at_a_crash_comes_again_as_if_new():
    assert faults(Story().publish(1, 2).deliver(1, 2).add(Crash()).consume(1, 2, by="d")) == {}


def test_what_a_client_held_that_has_left_goes_to_another():
    assert (
        faults(Story().publish(1).deliver(1).add(Gone("c")).deliver(1, to="d", marks={"disconnects": 1}).ack(1)) == {}
    )


def test_a_forgotten_return_stays_forgotten_when_later_commits_are_confirmed():
    story = Story().publish(1).deliver(1).settle(Act.NACK, 1).add(Crash()).publish(2).consume(1, 2, by="d")
    assert faults(story) == {}
    assert story.report().counts["forgotten"] == 1


def test_messages_that_came_back_may_come_in_any_order():
    story = Story().publish(1, 2).deliver(1, 2).settle(Act.NACK, 1).settle(Act.BACK, 2)
    assert faults(story.deliver(2, 1, marks={"nacks": 1}).ack(1, 2)) == {}


def test_publishes_of_two_clients_that_overlap_have_no_order():
    story = Story()
    first, second = story.ask(Act.PUBLISH, 1, by="p"), story.ask(Act.PUBLISH, 2, by="q")
    assert faults(story.add(Ok(first), Ok(second)).consume(2, 1)) == {}


def test_two_consumers_may_get_messages_in_turns():
    assert faults(Story().publish(1, 2, 3, 4).consume(2, 3, by="d").consume(1, 4, by="e")) == {}


# --- what may not be --------------------------------------------------------------------------------------------


def test_finds_a_confirmed_message_that_does_not_come():
    story = Story().publish(1, 2).add(Crash()).consume(2)
    assert faults(story) == {"lost": 1}
    assert "message 1 of p on t: confirmed, came 0 times" in story.report().findings[0]


def test_finds_a_message_that_came_once_was_not_acknowledged_and_is_gone():
    assert faults(Story().try_to_publish(1).deliver(1).add(Crash())) == {"lost": 1}


@pytest.mark.parametrize("act", [Act.NACK, Act.BACK, Act.DACK])
def test_finds_a_returned_message_that_does_not_come_back(act):
    assert faults(Story().publish(1).deliver(1).settle(act, 1)) == {"lost": 1}


def test_finds_half_of_a_request_whose_outcome_is_unknown():
    assert faults(Story().try_to_publish(1, 2, 3).add(Crash()).consume(1, 2)) == {"lost": 1}


def test_finds_messages_that_are_counted_but_do_not_come():
    assert check([Drained("t", left=2)]).counts["lost"] == 1


def test_finds_bytes_that_nobody_published():
    assert faults(Story().deliver(None)) == {"phantom": 1}
    assert faults(Story().publish(1).consume(1).deliver(7)) == {"phantom": 1}


def test_finds_a_message_that_was_refused_and_comes_all_the_same():
    story = Story()
    story.add(Fail(story.ask(Act.PUBLISH, 1))).deliver(1)
    assert faults(story) == {"phantom": 1}


def test_finds_a_message_in_another_topic():
    assert faults(Story().publish(1).deliver(1, topic="u").consume(1)) == {"phantom": 1}


def test_finds_a_message_that_two_consumers_hold():
    assert faults(Story().publish(1).deliver(1).deliver(1, to="d", marks=None).ack(1)) == {"duplicated": 1}


def test_finds_a_message_that_comes_after_its_ack_in_the_same_run():
    assert faults(Story().publish(1).consume(1).deliver(1, to="d", marks=None).ack(1)) == {"duplicated": 1}


def test_finds_a_message_that_comes_after_its_ack_was_durable():
    story = Story().publish(1).consume(1).publish(2).add(Crash()).consume(1, 2)
    assert faults(story) == {"duplicated": 1}
    assert "message 1 of p on t came to c after its ACK 2: a later commit was confirmed" in story.report().findings[0]


def test_finds_a_message_that_comes_after_its_ack_with_sync():
    story = Story().publish(1).deliver(1).settle(Act.ACK, 1, is_synced=True).add(Crash()).consume(1)
    assert faults(story) == {"duplicated": 1}
    assert story.report().counts["synced"] == 1


def test_finds_a_message_whose_ack_was_answered_before_one_with_sync_was_begun():
    story = Story().publish(1, 2).consume(1).deliver(2).settle(Act.ACK, 2, is_synced=True)
    assert faults(story.add(Crash()).consume(1)) == {"duplicated": 1}


def test_an_ack_that_was_answered_after_one_with_sync_was_begun_may_be_forgotten():
    story = Story().publish(1, 2).deliver(1, 2)
    op = story.ask(Act.ACK, 2, by="c", is_synced=True)
    assert faults(story.ack(1).add(Ok(op), Crash()).consume(1)) == {}


def test_finds_an_ack_that_a_stop_in_good_order_has_forgotten():
    assert faults(Story().publish(1).consume(1).add(Stop()).consume(1)) == {"duplicated": 1}


def test_finds_a_message_that_comes_after_its_topic_was_drained_for_good():
    story = Story().publish(1).consume(1).publish(2).consume(2).add(Drained("t"), Crash()).deliver(1)
    assert faults(story)["duplicated"] == 1


@pytest.mark.parametrize("act", [Act.NACK, Act.BACK, Act.DACK])
def test_finds_a_returned_message_that_comes_as_if_new(act):
    story = Story().publish(1).deliver(1).settle(act, 1).publish(2).add(Crash()).consume(1, 2)
    assert faults(story) == {"duplicated": 1}
    story = Story().publish(1).deliver(1).settle(act, 1, is_synced=True).add(Crash()).consume(1)
    assert faults(story) == {"duplicated": 1}


def test_finds_a_delayed_message_that_comes_early():
    story = Story().publish(1).deliver(1).settle(Act.DACK, 1, delay_seconds=2)
    assert faults(story.wait(1.9995).deliver(1, marks={"dacks": 1}).ack(1)) == {"out_of_order": 1}


def test_a_delayed_message_that_comes_in_time_is_no_fault():
    story = Story().publish(1).deliver(1).settle(Act.DACK, 1, delay_seconds=2)
    assert faults(story.wait(2).deliver(1, marks={"dacks": 1}).ack(1)) == {}


@pytest.mark.parametrize(
    "story",
    [
        Story().publish(1, 2).consume(2, 1),
        Story().publish(1, by="p").publish(2, by="q").consume(2, 1),
        Story().publish(2, by="p", seqs=(1,)).publish(1, by="q", seqs=(0,)).consume(2, 1),
        Story().try_to_publish(1).publish(2).consume(2, 1),
    ],
    ids=["of one request", "one after the other", "by their places", "of one client, not all confirmed"],
)
def test_finds_messages_out_of_order(story):
    assert faults(story) == {"out_of_order": 1}


# --- the checker itself -----------------------------------------------------------------------------------------


def test_the_checker_keeps_nothing_of_a_drained_topic():
    checker = Checker()
    story = Story()
    for id_ in range(0, 100, 2):
        story.publish(id_).consume(id_).try_to_publish(id_ + 1)
    for event in story.publish(100).add(Crash(), Drained("t")).events:
        checker.take(event)
    assert len(checker._messages) == 0
    assert checker.report.counts["lost"] == 1


# --- one reader after the other -----------------------------------------------------------------------------------


def test_who_reads_next_goes_on_where_the_one_before_has_stopped():
    story = Story().publish(1, 2, 3, seqs=(0, 1, 2)).deliver(1, 2, reader="r").ack(1, 2)
    assert faults(story.deliver(3, to="d", reader="r").ack(3)) == {}


def test_what_the_last_reader_left_behind_comes_back_to_the_next():
    story = Story().publish(1, 2, seqs=(0, 1)).deliver(1, reader="r").add(Gone("c"))
    story.deliver(1, to="d", marks={"disconnects": 1}, reader="r").deliver(2, to="d", reader="r")
    assert faults(story.ack(1, 2, by="d")) == {}


def test_one_who_reads_while_another_has_something_out_is_out_of_order():
    story = Story().publish(1, 2, seqs=(0, 1)).deliver(1, reader="r").deliver(2, to="d", reader="r")
    assert faults(story.ack(1).ack(2, by="d")) == {"out_of_order": 1}


def test_what_comes_to_the_next_reader_behind_what_came_to_the_one_before_is_out_of_order():
    story = Story().publish(1, 2, seqs=(0, 1)).deliver(2, reader="r").ack(2)
    assert faults(story.deliver(1, to="d", reader="r").ack(1, by="d")) == {"out_of_order": 1}


def test_after_a_crash_there_is_another_reader():
    story = Story().publish(1, 2, seqs=(0, 1)).deliver(1, 2, reader="r").add(Crash())
    assert faults(story.deliver(1, 2, to="d", reader="r").ack(1, 2, by="d")) == {}


def test_a_lease_may_end_before_its_client_notices_if_that_is_possible_and_its_settles_are_not_confirmed():
    story = Story().publish(1).deliver(1, to="c").deliver(1, to="d", marks={"disconnects": 1})
    assert counts_of(story, leases_end=False) == {"duplicated": 1}
    assert counts_of(story, leases_end=True) == {}
    assert counts_of(Story().publish(1).deliver(1, to="c").deliver(1, to="d"), leases_end=True) == {"duplicated": 1}
    late = story.add(Unknown(story.ask(Act.ACK, 1, by="c")))
    assert counts_of(late, leases_end=True) == {}
    assert counts_of(late.deliver(1, to="e", marks={"disconnects": 1}), leases_end=True) == {"duplicated": 1}
    confirmed = Story().publish(1).deliver(1, to="c").deliver(1, to="d", marks={"timeouts": 1}).ack(1, by="c")
    assert counts_of(confirmed, leases_end=True) == {"duplicated": 1}
    slow = Story().publish(1).deliver(1, to="d", marks={"timeouts": 1}).deliver(1, to="c")
    assert counts_of(slow.add(Unknown(slow.ask(Act.ACK, 1, by="c"))).ack(1, by="d"), leases_end=True) == {}


def counts_of(story: Story, *, leases_end: bool) -> dict[str, int]:
    checker = Checker(leases_end=leases_end)
    for event in story.events:
        checker.take(event)
    return {kind: checker.report.counts[kind] for kind in BAD if checker.report.counts[kind]}
