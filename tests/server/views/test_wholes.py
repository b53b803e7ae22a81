"""What is shown of spread topics, from what is shown of their parts, with or without what a part does not know."""

import pytest

from miniqueue.server.views.wholes import ids_of_tasks, whole_figures, whole_group, whole_holders, whole_task


@pytest.mark.parametrize(
    ("name", "of_parts", "of_whole"),
    [
        ("ready", [2, 5], 7),
        ("publish_rate_10s", [0.1, 0.2], 0.3),
        ("oldest_seconds", [7, 9.5], 9.5),
        ("unread_seconds", [60, 0], 0),
        ("consumers", [1, 1], 1),
        ("paused", [False, True], True),
        ("oldest_seconds", [None, 3], 3),
        ("oldest_seconds", [None, None], None),
    ],
)
def test_a_figure_is_a_sum_or_that_of_one_part(name, of_parts, of_whole):
    assert whole_figures([{name: value} for value in of_parts]) == {name: of_whole}


def test_a_group_has_the_partitions_of_all_parts():
    parts = [
        {"name": "g", "lag": 1, "position": ["0-1"], "lags": {"0": 1}, "members": {"a": [0], "b": [1]}},
        {"name": "g", "lag": 2, "position": ["1024-0"], "lags": {"1024": 2}, "members": {"b": [1024]}},
    ]
    assert whole_group(parts) == {
        "name": "g",
        "lag": 3,
        "position": ["0-1", "1024-0"],
        "lags": {"0": 1, "1024": 2},
        "members": {"a": [0], "b": [1, 1024]},
    }


def test_a_holder_of_leases_in_several_parts_is_one_holder():
    rows = [
        {"user": None, "address": "::1", "leased": 1, "left": 9},
        {"user": "ada", "address": None, "leased": 2, "left": 8},
        {"user": "ada", "address": None, "leased": 1, "left": 5},
    ]
    assert whole_holders(rows, "left") == [
        {"user": "ada", "address": None, "leased": 3, "left": 5},
        {"user": None, "address": "::1", "leased": 1, "left": 9},
    ]


def test_a_task_runs_until_those_of_all_parts_have_ended():
    done = {"id": "1", "status": "done", "count": 3, "rate": 0.1, "ended_at": 17, "error": None}
    runs = {"id": "2", "status": "running", "count": 1, "rate": 0.2, "ended_at": None, "error": None}
    failed = done | {"id": "3", "status": "failed", "ended_at": 18, "error": "FULL no room"}
    assert whole_task([done, runs], "ended_at") == runs | {"id": "1-2", "count": 4, "rate": 0.3}
    assert whole_task([done, failed], "ended_at") == failed | {"id": "1-3", "count": 6, "rate": 0.2}


@pytest.mark.parametrize(
    ("task_id", "ids"), [(b"17", [b"17"]), (b"17-18", [b"17", b"18"]), (b"17-x", [b"17-x"]), (b"-", [b"-"])]
)
def test_the_id_of_a_whole_task_has_those_of_all(task_id, ids):
    assert ids_of_tasks(task_id) == ids
