"""A write warns at its start if a retry could come after the topic has forgotten its ids."""

from types import SimpleNamespace

import pytest

from miniqueue.core.settings.settings import TopicSettings
from miniqueue.spark import dedup_check
from miniqueue.spark.dedup_check import attempts_of, warn_of_short_window
from miniqueue.spark.options import Options, Use
from miniqueue_client import RefusedError


class SettingsClient:
    """Tells the settings of one topic, or refuses to."""

    def __init__(self, window):
        self.window = window

    def topic_settings(self, topic):
        if isinstance(self.window, RefusedError):
            raise self.window
        return {"dedup_window_seconds": self.window}


def warnings(caplog, window, attempts=4, **given):
    options = Options({"topic": "orders", **given}, Use.STREAM_WRITE)
    warn_of_short_window(SettingsClient(window), options, attempts)
    return caplog.messages


@pytest.mark.parametrize("window", ["120", "1199.9", RefusedError("NOTOPIC", "x")])
def test_a_window_shorter_than_all_attempts_of_a_task_is_told_with_what_to_do(caplog, window):
    [line] = warnings(caplog, window)
    assert line.startswith("the dedup window of orders is 1")
    assert "too short for the attempts of a task (at most 4), each of which can wait 300 s (blockSeconds)" in line
    assert line.endswith("; TOPIC SET orders dedup_window_seconds 1200")


@pytest.mark.parametrize(
    ("window", "attempts", "given"),
    [
        ("1200", 4, {}),
        ("300", 1, {}),
        ("120", 4, {"blockSeconds": "30"}),
        ("0", 4, {"deduplicate": "false"}),
    ],
)
def test_a_window_that_is_long_enough_is_not_told_of(caplog, window, attempts, given):
    assert warnings(caplog, window, attempts, **given) == []


def test_a_window_that_the_user_may_not_see_is_told_of(caplog):
    [line] = warnings(caplog, RefusedError("NOPERM", "x"))
    assert line.startswith("the dedup window of orders is unknown (NOPERM x); for the attempts of a task (at most 4)")
    assert line.endswith("TOPIC SET orders dedup_window_seconds 1200")


def test_no_longer_window_is_advised_than_a_topic_can_have(caplog):
    [line] = warnings(caplog, "120", blockSeconds="inf")
    assert line.endswith("dedup_window_seconds 604800")


def test_a_topic_that_does_not_exist_gets_the_window_of_the_broker():
    assert TopicSettings().dedup_window_seconds == dedup_check.DEFAULT_WINDOW_SECONDS


@pytest.mark.parametrize(
    ("master", "configured", "attempts"),
    [
        ("local", {}, 1),
        ("local[*]", {"spark.task.maxFailures": "9"}, 1),
        ("local[2,3]", {}, 3),
        ("local-cluster[2,1,1024]", {}, 4),
        ("spark://queue:7077", {"spark.task.maxFailures": "2"}, 2),
    ],
)
def test_the_attempts_are_those_of_the_session(master, configured, attempts):
    context = SimpleNamespace(master=master, getConf=lambda: configured)
    assert attempts_of(SimpleNamespace(sparkContext=context)) == attempts
