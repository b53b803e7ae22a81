"""Bugs that the machine must find with the rules that it has in some runs only, and in what the broker tells."""

from collections.abc import Callable

import pytest

from miniqueue.broker.acts.task import Task
from miniqueue.broker.acts.tasks import ActTasks
from miniqueue.broker.consume.stream_leases import StreamLeases
from miniqueue.broker.delays import schedules
from miniqueue.broker.groups import idle
from miniqueue.broker.groups.idle import IdleGroups
from miniqueue.broker.leases.receive_any import ReceiveAny
from miniqueue.broker.runtime.notices import NoticeKind, Notices
from miniqueue.broker.topics.admin import TopicAdmin
from tests.model.planted.in_walks import leases_end_early, transactions_are_two_commits

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def several_topics_give_too_many(patch: Patch) -> None:
    """Each gives as many as were asked for."""
    take = ReceiveAny._take

    def without_counting(self, name, result):
        room = self._room
        take(self, name, result)
        self._room = room

    patch.setattr(ReceiveAny, "_take", without_counting)


def leases_of_streams_do_not_end(patch: Patch) -> None:
    patch.setattr(StreamLeases, "tick", lambda self: None)


def pauses_of_groups_are_ignored(patch: Patch) -> None:
    paused_at = TopicAdmin._paused_at

    def sides(self, topic, now_ms):
        return frozenset(paused for paused in paused_at(self, topic, now_ms) if paused[0] != "group")

    patch.setattr(TopicAdmin, "_paused_at", sides)


def groups_do_not_end(patch: Patch) -> None:
    patch.setattr(IdleGroups, "tick", lambda self, delete: None)


def groups_end_without_a_first_reader(patch: Patch) -> None:
    patch.setattr(IdleGroups, "expect_consumer", lambda self, group: None)


def groups_with_a_time_of_their_own_do_not_end(patch: Patch) -> None:
    is_over = IdleGroups._is_over

    def without_them(self, group):
        return idle.end_of(group).setting != "idle_groups" and is_over(self, group)

    patch.setattr(IdleGroups, "_is_over", without_them)


def schedules_do_not_end(patch: Patch) -> None:
    due_ticks_ms = schedules.due_ticks_ms
    patch.setattr(
        schedules,
        "due_ticks_ms",
        lambda schedule, *arguments: due_ticks_ms(schedule._replace(until_ms=None), *arguments),
    )


def schedules_have_no_keys(patch: Patch) -> None:
    options_at = schedules._options_at
    patch.setattr(schedules, "_options_at", lambda *arguments: options_at(*arguments)._replace(key=b""))


def tasks_end_with_the_broker(patch: Patch) -> None:
    patch.setattr(ActTasks, "restored", lambda self, content: None)


def the_front_moves_on_with_a_restart(patch: Patch) -> None:
    """What a task moves to the front afterwards comes before what it has moved before."""
    members = Task.members
    patch.setattr(Task, "members", lambda self: members(self) | {"owner": None})


def deletions_are_not_told(patch: Patch) -> None:
    report = Notices.report

    def others(self, kind, topic=b"", **details):
        if kind is not NoticeKind.TOPIC_DELETED:
            report(self, kind, topic, **details)

    patch.setattr(Notices, "report", others)


IN_MORE: tuple[Plant, ...] = (
    transactions_are_two_commits,
    leases_end_early,
    several_topics_give_too_many,
    leases_of_streams_do_not_end,
    pauses_of_groups_are_ignored,
    groups_do_not_end,
    groups_end_without_a_first_reader,
    groups_with_a_time_of_their_own_do_not_end,
    schedules_do_not_end,
    schedules_have_no_keys,
    tasks_end_with_the_broker,
    the_front_moves_on_with_a_restart,
    deletions_are_not_told,
)
