"""Users of the groups of Redis Streams get what they expect: each story runs on a real Redis and on a topic.

Both are spoken to with redis-py; docs/coming-from.md has the commands side by side. What a user sees must be equal.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, time_ns
from typing import TypeVar

import pytest

from tests.acceptance.ports import hold_port, port_of
from tests.acceptance.process import BrokerProcess
from tests.acceptance.streams import Entry, GroupFigures, Log, Stream, Topic, redis_server
from tests.acceptance.tools import needs

T = TypeVar("T")

LEASE_SECONDS = 0.2
COMMANDS = ("XADD", "XREADGROUP", "XACK", "XPENDING", "XAUTOCLAIM", "XRANGE", "XLEN", "XINFO")
GUIDE = Path(__file__).parents[3] / "docs/coming-from.md"

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, needs("redis-server")]


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with hold_port() as held, redis_server(port_of(held), tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def told(redis_port: int, broker: BrokerProcess, topic: str) -> Callable[[Callable[[Log], T]], T]:
    """Run a story on both, and return what it returns, which must be the same."""

    def tell(story: Callable[[Log], T]) -> T:
        of_redis = story(Stream(redis_port, topic))
        assert story(Topic(broker.resp_port, topic)) == of_redis
        return of_redis

    return tell


def test_what_is_added_is_handed_out_in_order_and_only_once_to_a_group(told):
    def story(log: Log) -> list[list[str]]:
        log.make_group("g")
        log.add("a", "b", "c")
        return [log.take("g", 2, "ada"), log.take("g", 2, "bob"), log.take("g", 2, "ada")]

    assert told(story) == [["a", "b"], ["c"], []]


def test_each_group_gets_everything_and_knows_nothing_of_the_other(told):
    def story(log: Log) -> list[object]:
        log.make_group("g")
        log.make_group("h")
        log.add("a", "b")
        log.take("g", 2)
        log.settle("g", "a")
        return [log.take("h", 2), log.pending("g"), log.pending("h")]

    assert told(story) == [["a", "b"], {"b": 1}, {"a": 1, "b": 1}]


def test_a_group_begins_where_it_was_asked_to(told):
    def story(log: Log) -> list[object]:
        log.make_group("all")
        log.add("old")
        log.make_group("new", is_new_only=True)
        log.add("young")
        return [log.take("all", 5), log.take("new", 5)]

    assert told(story) == [["old", "young"], ["young"]]


def test_an_acknowledgement_counts_once(told):
    def story(log: Log) -> list[object]:
        log.make_group("g")
        log.add("a", "b")
        log.take("g", 2)
        return [log.settle("g", "a"), log.settle("g", "a"), log.settle("g", "a", "b"), log.pending("g")]

    assert told(story) == [1, 0, 1, {}]


def test_what_a_consumer_had_when_it_crashed_is_pending(told):
    def story(log: Log) -> list[object]:
        log.make_group("g")
        log.add("a", "b", "c")
        log.take_and_crash("g", 2, lease_seconds=60)
        return [log.pending("g"), log.take("g", 3), log.pending("g")]

    assert told(story) == [{"a": 1, "b": 1}, ["c"], {"a": 1, "b": 1, "c": 1}]


def test_what_a_consumer_had_when_it_crashed_goes_to_another_after_its_time_and_not_before(told):
    def story(log: Log) -> list[object]:
        log.make_group("g")
        log.add("a", "b")
        began = monotonic()
        log.take_and_crash("g", 2, LEASE_SECONDS)
        taken = log.take_over("g", 2, LEASE_SECONDS)
        return [monotonic() - began >= LEASE_SECONDS, taken, log.pending("g"), log.settle("g", "a", "b")]

    assert told(story) == [True, ["a", "b"], {"a": 2, "b": 2}, 2]


def test_the_log_shows_what_was_added_whatever_the_groups_have_done(told):
    def story(log: Log) -> list[object]:
        log.make_group("g")
        log.add("a", "b", "c")
        log.take("g", 2)
        log.settle("g", "a")
        return [[entry.text for entry in log.range(count)] for count in (1, 10)]

    assert told(story) == [["a"], ["a", "b", "c"]]


def test_the_log_can_be_read_from_a_time_on(told):
    def story(log: Log) -> list[list[str]]:
        log.make_group("g")
        log.add("a", "b")
        after_ms = next_ms(log.range(2)[-1])
        log.add("c", "d")
        first, *_ = log.range(1, after_ms)
        return [[entry.text for entry in log.range(10, at_ms)] for at_ms in (0, after_ms, first.at_ms)]

    assert told(story) == [["a", "b", "c", "d"], ["c", "d"], ["c", "d"]]


def next_ms(entry: Entry) -> int:
    """Return the first millisecond behind an entry, as soon as the clock has come there."""
    while (now_ms := time_ns() // 1_000_000) <= entry.at_ms:
        pass
    return now_ms


def test_the_length_is_that_of_the_log_also_when_all_is_acknowledged(told):
    def story(log: Log) -> list[object]:
        log.make_group("g")
        log.add("a", "b", "c")
        before = log.length()
        log.take_and_settle("g", 2)
        return [before, log.length(), log.added()]

    assert told(story) == [3, 3, 3]


def test_who_does_not_acknowledge_has_nothing_pending(told):
    def story(log: Log) -> list[object]:
        log.make_group("g")
        log.add("a", "b")
        return [log.take_and_settle("g", 1), log.pending("g"), log.take("g", 5)]

    assert told(story) == [["a"], {}, ["b"]]


def test_the_figures_of_groups_tell_what_is_pending_and_what_is_unread(told):
    def story(log: Log) -> list[GroupFigures]:
        log.make_group("g")
        log.make_group("h")
        log.add("a", "b", "c", "d")
        log.take("g", 3)
        log.settle("g", "a")
        return log.groups()

    assert told(story) == [GroupFigures("g", 2, 1), GroupFigures("h", 0, 4)]


def test_a_group_can_be_put_back_to_the_start(told):
    def story(log: Log) -> list[list[str]]:
        log.make_group("g")
        log.add("a", "b")
        log.take_and_settle("g", 2)
        log.move_group_to_start("g")
        return [log.take("g", 5), log.take("g", 5)]

    assert told(story) == [["a", "b"], []]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_guide_has_a_row_for_each_command(command):
    table = GUIDE.read_text().partition("## Redis Streams")[2].partition("\n## ")[0]
    assert f"\n| `{command}" in table
