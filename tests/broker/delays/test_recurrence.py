"""The ticks of schedules: their times, through the changes of clocks, and none twice."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniqueue.broker.delays.recurrence import due_ticks_ms, first_tick_ms, zone_of
from miniqueue.core.settings.schedule import Schedule
from miniqueue.errors.requests import InvalidOptionError

BERLIN = ZoneInfo("Europe/Berlin")


def cron(expression: str, zone: str = "UTC") -> Schedule:
    return Schedule(b"t", b"x", cron=expression, zone=zone)


def at_ms(*parts: int, zone=UTC) -> int:
    return int(datetime(*parts, tzinfo=zone).timestamp()) * 1000


def ticks(schedule: Schedule, start_ms: int, count: int) -> list[int]:
    """Return the first ticks behind a time, one by one."""
    found = [first_tick_ms(schedule, start_ms)]
    while len(found) < count:
        found.append(first_tick_ms(schedule, found[-1]))
    return found


def shown(ticks_ms: list[int], zone: ZoneInfo = BERLIN) -> list[str]:
    return [datetime.fromtimestamp(tick_ms / 1000, zone).strftime("%d %H:%M %z") for tick_ms in ticks_ms]


def test_seconds_count_from_when_the_schedule_was_set():
    schedule = Schedule(b"t", b"x", every_ms=1500)
    assert first_tick_ms(schedule, 1_700_000_000_123) == 1_700_000_001_623
    assert due_ticks_ms(schedule, 1000, 1000, 10) == ([1000], 2500)
    assert due_ticks_ms(schedule, 1000, 3999, 10) == ([1000, 2500], 4000)
    assert due_ticks_ms(schedule, 1000, 4000, 10) == ([1000, 2500, 4000], 5500)
    assert due_ticks_ms(schedule, 1000, 10**15, 2) == ([999_999_999_998_500, 10**15], 1_000_000_000_001_500)


def test_cron_names_minutes():
    start_ms = at_ms(2026, 11, 20, 9, 0)
    assert first_tick_ms(cron("0 9 * * MON-FRI"), start_ms - 1) == start_ms
    assert first_tick_ms(cron("0 9 * * MON-FRI"), start_ms) == at_ms(2026, 11, 23, 9, 0)
    assert first_tick_ms(cron("*/15 * * * *"), start_ms + 1) == start_ms + 900_000
    assert first_tick_ms(cron("0 0 L * *"), start_ms) == at_ms(2026, 11, 30)
    assert first_tick_ms(cron("0 0 29 2 *"), start_ms) == at_ms(2028, 2, 29)


def test_cron_with_six_fields_names_seconds():
    start_ms = at_ms(2026, 11, 20, 9, 0)
    assert ticks(cron("*/20 * * * * *"), start_ms, 3) == [start_ms + n * 20_000 for n in (1, 2, 3)]


def test_the_zone_says_when_it_is_nine():
    start_ms = at_ms(2026, 7, 1)
    assert first_tick_ms(cron("0 9 * * *", "Europe/Berlin"), start_ms) == at_ms(2026, 7, 1, 7)
    assert first_tick_ms(cron("0 9 * * *", "Asia/Kolkata"), start_ms) == at_ms(2026, 7, 1, 3, 30)


def test_what_falls_into_the_hour_that_is_left_out_comes_at_its_end():
    start_ms = at_ms(2026, 3, 28, 12, zone=BERLIN)
    found = ticks(cron("30 2 * * *", "Europe/Berlin"), start_ms, 3)
    assert shown(found) == ["29 03:00 +0200", "30 02:30 +0200", "31 02:30 +0200"]


def test_what_falls_into_the_hour_that_comes_twice_comes_once():
    start_ms = at_ms(2026, 10, 24, 12, zone=BERLIN)
    found = ticks(cron("30 2 * * *", "Europe/Berlin"), start_ms, 3)
    assert shown(found) == ["25 02:30 +0200", "26 02:30 +0100", "27 02:30 +0100"]


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *"])
@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ((2026, 3, 28, 12), ["29 03:00 +0200", "30 02:30 +0200"]),
        ((2026, 10, 24, 12), ["25 02:30 +0200", "26 02:30 +0100"]),
    ],
)
def test_five_and_six_fields_go_through_a_change_of_clocks_alike(expression, start, expected):
    schedule, start_ms = cron(expression, "Europe/Berlin"), at_ms(*start, zone=BERLIN)
    found = ticks(schedule, start_ms, 3)
    assert shown(found[:2]) == expected
    assert due_ticks_ms(schedule, found[0], found[1], 10) == (found[:2], found[2])


@pytest.mark.parametrize(
    ("expression", "seconds"),
    [
        ("20 30 2 * * *", [0]),
        ("0,20 30 2 * * *", [0]),
        ("*/7 10-50 2 * * *", [0]),
        ("20,40 0,30 2,3 * * *", [0, 20, 40, 1820, 1840]),
        ("20 0 1,3 * * *", [20]),
    ],
)
def test_all_seconds_that_are_left_out_come_once_at_the_end_of_that_hour(expression, seconds):
    schedule = cron(expression, "Europe/Berlin")
    end_ms = at_ms(2026, 3, 29, 3, zone=BERLIN)
    expected = [end_ms + 1000 * second for second in seconds]
    found = ticks(schedule, end_ms - 1, len(seconds))
    assert found == expected
    assert first_tick_ms(schedule, found[-1]) >= at_ms(2026, 3, 30, 1, zone=BERLIN)
    whole, following = due_ticks_ms(schedule, found[0], end_ms + 3_600_000, 10)
    assert (whole, following) == (expected, first_tick_ms(schedule, found[-1]))
    for tick_ms, next_ms in zip(expected, [*expected[1:], following], strict=True):
        assert due_ticks_ms(schedule, tick_ms, tick_ms, 10) == ([tick_ms], next_ms)


@pytest.mark.parametrize("expression", ["20 30 2 * * *", "0,20 0,30 2,3 * * *"])
def test_the_latest_ticks_are_found_from_behind_the_hour_that_is_left_out(expression):
    schedule = cron(expression, "Europe/Berlin")
    first_ms = first_tick_ms(schedule, at_ms(2026, 3, 20))
    now_ms = at_ms(2026, 3, 31)
    forward = [first_ms]
    while (following := first_tick_ms(schedule, forward[-1])) <= now_ms:
        forward.append(following)
    for count in (1, 7, 30):
        assert due_ticks_ms(schedule, first_ms, now_ms, count) == (forward[-count:], following)


def test_in_the_hour_that_comes_twice_nothing_comes_twice():
    schedule = cron("50 2 * * *", "Europe/Berlin")
    first_ms = at_ms(2026, 10, 25, 0, 50)
    for minutes in range(0, 180, 5):
        found, following = due_ticks_ms(schedule, first_ms, first_ms + minutes * 60_000, 10)
        assert (found, shown([following])) == ([first_ms], ["26 02:50 +0100"])
        assert first_tick_ms(schedule, first_ms + minutes * 60_000) == following


def test_a_star_goes_by_the_time_that_passes():
    start_ms = at_ms(2026, 10, 25, 1, 45, zone=BERLIN)
    found = ticks(cron("*/30 * * * *", "Europe/Berlin"), start_ms, 5)
    assert shown(found) == ["25 02:00 +0200", "25 02:30 +0200", "25 02:00 +0100", "25 02:30 +0100", "25 03:00 +0100"]


@pytest.mark.slow
@pytest.mark.parametrize("expression", ["*/30 * * * *", "30 2 * * *", "15,45 2,3 * * *", "0 0 * * *", "10 */2 * * SUN"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_the_latest_of_many_ticks_are_those_that_going_on_finds(expression, zone):
    schedule = cron(expression, zone)
    for month in (3, 4, 10, 11):
        start_ms = at_ms(2026, month, 1)
        now_ms = start_ms + 40 * 86_400_000
        forward = ticks(schedule, start_ms, 1)
        while (following := first_tick_ms(schedule, forward[-1])) <= now_ms:
            forward.append(following)
        assert due_ticks_ms(schedule, forward[0], now_ms, 10_000) == (forward, following)
        assert due_ticks_ms(schedule, forward[0], now_ms, 7) == (forward[-7:], following)


@settings(max_examples=30, deadline=None)
@given(st.integers(1_600_000_000_000, 1_900_000_000_000), st.integers(0, 20 * 86_400_000))
def test_every_tick_comes_in_one_look_wherever_the_looks_are(start_ms, length_ms):
    schedule = cron("20 1,2,3 * * *", "Europe/Berlin")
    due_ms = first_tick_ms(schedule, start_ms)
    middle_ms, end_ms = start_ms + length_ms // 3, start_ms + length_ms
    whole, following = due_ticks_ms(schedule, due_ms, end_ms, 1000) if due_ms <= end_ms else ([], due_ms)
    parts = []
    for now_ms in (middle_ms, end_ms):
        if due_ms <= now_ms:
            some, due_ms = due_ticks_ms(schedule, due_ms, now_ms, 1000)
            parts += some
    assert (parts, due_ms) == (whole, following)


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "x",
        "* * * *",
        "60 * * * *",
        "* * * * * * *",
        "0 0 30 2 *",
        "0 0 31 4,6 *",
        "5-1 * * * *",
        "*/0 * * * *",
        "@daily",
        "0" + ",0" * 124 + " * * * *",  # too long
    ],
)
def test_an_expression_that_makes_no_sense_is_refused(expression):
    with pytest.raises(InvalidOptionError):
        first_tick_ms(Schedule(b"t", b"x", cron=expression), at_ms(2026, 1, 1))


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../etc/passwd", "/etc/passwd", "Europe", "a\0b", "UTC+1"])
def test_a_zone_that_is_not_there_is_refused(name):
    with pytest.raises(InvalidOptionError, match="no such time zone"):
        zone_of(name)
