"""The points of the last hours: what is kept of the broker and of topics, gaps, and what bounds them."""

from miniqueue.broker.inspect import history
from miniqueue.broker.inspect.history import (
    BROKER_POINTS,
    COARSE_POINTS,
    COARSE_TICKS,
    TOPIC_POINTS,
    History,
    Point,
)

QUIET = Point()
TOPIC = 7


def note(made, tick, broker, topics):
    """Add all points of a tick."""
    made.begin(tick, broker, topics)
    made.add(tick, topics.items())


def with_ready(*counts: int | None, first_tick: int = 100) -> History:
    """Return a history in which a topic has these ready messages; None: the tick is missing."""
    made = History()
    for tick, count in enumerate(counts, start=first_tick):
        if count is not None:
            note(made, tick, Point(ready=count), {TOPIC: Point(ready=count, depth=count)} if count else {})
    return made


def ready(line):
    return [None if point is None else point.ready for point in line.points]


def test_an_empty_history_has_no_points():
    assert History().of_broker().points == History().of_broker_by_day().points == History().of_topic(TOPIC).points == []
    assert History().ready_of(TOPIC) == []
    assert History().growth_of(TOPIC) == (0, 0)


def test_the_line_of_the_broker_begins_with_the_process():
    line = with_ready(1, 2, 3).of_broker()
    assert (ready(line), line.last_tick, line.step_seconds) == ([1, 2, 3], 102, 20)


def test_a_missing_tick_is_a_gap_for_the_broker_and_for_topics():
    made = with_ready(5, 5, None, None, 5)
    assert ready(made.of_broker()) == ready(made.of_topic(TOPIC)) == [5, 5, None, None, 5]


def test_a_topic_keeps_its_last_point_until_it_changes():
    made = with_ready(3, 3, 3, 4, 4, 0, 0)
    assert ready(made.of_topic(TOPIC)) == [3, 3, 3, 4, 4, 0, 0]
    assert made.ready_of(TOPIC) == [3, 3, 3, 4, 4, 0, 0]


def test_a_topic_was_empty_before_its_first_point():
    made = with_ready(0, 0, 4)
    assert ready(made.of_topic(TOPIC)) == [0, 0, 4]
    assert ready(made.of_topic(TOPIC + 1)) == [0, 0, 0]


def test_lines_have_a_limited_length():
    made = with_ready(*range(1, 1000))
    assert ready(made.of_broker()) == list(range(1000 - BROKER_POINTS, 1000))
    assert ready(made.of_topic(TOPIC)) == list(range(1000 - TOPIC_POINTS, 1000))


def test_a_day_has_average_rates_and_the_last_counts_of_each_five_minutes():
    made = History()
    for tick in range(COARSE_TICKS * (COARSE_POINTS + 5)):
        note(made, tick, Point(published=tick % 2, ready=tick), {})
    line = made.of_broker_by_day()
    assert len(line.points) == COARSE_POINTS
    assert line.step_seconds == 300
    assert line.last_tick == COARSE_POINTS + 4
    assert line.points[-1] == Point(published=0.467, ready=COARSE_TICKS * (COARSE_POINTS + 5) - 1)


def test_a_topic_that_stays_empty_loses_its_line_and_is_still_known_to_be_empty():
    made = with_ready(1, *[0] * (TOPIC_POINTS + 2))
    assert made.ready_of(TOPIC) == []
    assert ready(made.of_topic(TOPIC)) == [0] * TOPIC_POINTS


def test_growth_is_from_the_beginning_of_the_line():
    made = History()
    for tick in range(100):
        note(made, tick, QUIET, {TOPIC: Point(depth=tick, missed=2 * tick)})
    assert made.growth_of(TOPIC) == (TOPIC_POINTS - 1, 2 * (TOPIC_POINTS - 1))


def test_what_was_missed_before_the_line_began_is_no_growth():
    made = History()
    note(made, 1, QUIET, {})
    note(made, 2, QUIET, {TOPIC: Point(depth=1, missed=50)})
    assert made.growth_of(TOPIC) == (1, 0)
    note(made, 3, QUIET, {})
    note(made, 4, QUIET, {TOPIC: Point(depth=1, missed=50)})
    assert made.growth_of(TOPIC) == (1, 0)


def test_the_topic_that_changed_the_longest_time_ago_loses_its_line(monkeypatch):
    monkeypatch.setattr(history, "MAX_TOPICS", 2)
    made = History()
    active = Point(published=1.0, ready=1)
    note(made, 1, QUIET, {1: active, 2: active})
    note(made, 2, QUIET, {1: active._replace(ready=2), 2: active, 3: active})
    assert [ready(made.of_topic(each)) for each in (1, 2, 3)] == [[1, 2], [None, None], [0, 1]]
    note(made, 3, QUIET, {1: active, 2: active._replace(published=0.0), 3: active})
    assert ready(made.of_topic(2)) == [None, None, None]  # nothing happens in it, so it takes no line from others
    note(made, 4, QUIET, {1: active, 2: active, 3: active})
    assert ready(made.of_topic(2)) == [None, None, None, 1]  # what it had before is not known


def test_a_quiet_topic_takes_no_line_from_others(monkeypatch):
    monkeypatch.setattr(history, "MAX_TOPICS", 1)
    made = History()
    note(made, 1, QUIET, {1: Point(ready=1), 2: Point(ready=2)})
    assert [ready(made.of_topic(each)) for each in (1, 2)] == [[1], [None]]


def test_a_dropped_line_is_known_again_when_the_topic_is_empty(monkeypatch):
    monkeypatch.setattr(history, "MAX_TOPICS", 1)
    made = History()
    note(made, 1, QUIET, {1: Point(ready=1), 2: Point(ready=2)})
    note(made, 2, QUIET, {1: Point(ready=1)})
    assert ready(made.of_topic(2)) == [None, 0]


def test_memory_is_bounded_and_counted():
    made = History()
    for tick in range(60):
        note(made, tick, QUIET, {topic: Point(published=1.0, ready=tick) for topic in range(2500)})
    points = history.MAX_TOPICS * (TOPIC_POINTS + 1)
    assert made.size_bytes <= history.LINE_BYTES * history.MAX_TOPICS + history.POINT_BYTES * (points + 468)
