"""What a stream has done is counted from what Spark tells of its last steps, again and again."""

import json
from types import SimpleNamespace

from miniqueue.spark.jobs.running import Followed, followed, task_progress
from tests.spark.needs import IN_A_SESSION

pytestmark = IN_A_SESSION


class Query:
    """Tells of the steps that it has done in each second, and of some before, as Spark does."""

    def __init__(self, *seconds):
        self.seconds = list(seconds)

    def awaitTermination(self, _timeout):  # noqa: N802 - Spark's name
        self.recentProgress = self.seconds.pop(0)
        return not self.seconds


def step(number, messages, end, start=None):
    offsets = SimpleNamespace(
        startOffset=None if start is None else json.dumps({"t": {"0": start}}), endOffset=json.dumps({"t": {"0": end}})
    )
    return SimpleNamespace(batchId=number, numInputRows=messages, sources=[offsets])


def test_each_step_counts_once_however_often_it_is_told_and_steps_of_nothing_do_not():
    idle, first, second, gone = step(0, 0, 2), step(0, 3, 5), step(1, 2, 8, 5), step(2, 0, 9, 8)
    said = []
    query = Query([idle], [idle, first], [first, second], [first, second], [second, gone])
    assert followed(query, "archive t", said.append, {"t": {"0": 2}}) == Followed(messages=5, steps=3, lost=2)
    assert said == [
        "archive t: 3 messages in 1 step",
        "archive t: 5 messages in 2 steps, 1 lost",
        "archive t: 5 messages in 3 steps, 2 lost",
    ]


def test_what_is_lost_is_not_told_where_it_does_not_matter():
    assert followed(Query([step(0, 1, 9)]), "stats t", lambda _line: None) == Followed(1, 1)


def test_a_job_without_tasks_is_planning_and_one_task_is_no_tasks():
    assert [task_progress(*counts) for counts in ((0, 0), (0, 1), (1, 2))] == [
        "planning",
        "0 of 1 task",
        "1 of 2 tasks",
    ]
