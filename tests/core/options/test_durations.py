from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.options.durations import MAX_TIME_MS, parse_seconds, parse_time_ms
from miniqueue.core.options.publish import parse_words
from miniqueue.core.options.start import FromMessage, FromMessages, FromTime, parse_start
from miniqueue.core.settings.schedule import parse_every_ms
from miniqueue.core.settings.settings import DEFAULT_SETTINGS, parse_texts
from miniqueue.errors import InvalidDelayError
from miniqueue.errors.requests import InvalidOptionError, InvalidSettingError


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("5", 5), ("0.25", 0.25), (".5", 0.5), ("007", 7)])
def test_decimal_numbers_are_seconds(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5m", 300), ("1h30m", 5400), ("2d", 172_800), ("500ms", 0.5), ("1.5h", 5400), ("0s", 0), ("1d1ns", 86400 + 1e-9)],
)
def test_numbers_can_have_units(text, seconds):
    assert parse_seconds(text) == seconds


NO_DURATIONS = (
    *("", "-1", "+1", "1_0", "nan", "inf", "1e3", "0x1", " 1", "1 ", "1.", "five", "\u0661", "1\n", "5M", "1w", "h"),
    *("5m ", "-5m", "+5m", "1h30", "5 m", "1e3s", ".s", "\u0661s", "m5", "1s" * 51, "9" * 5000 + "s"),
)


@pytest.mark.parametrize("text", NO_DURATIONS)
def test_anything_else_is_no_duration(text):
    with pytest.raises(InvalidDelayError, match="a number of seconds, or a duration such as 1h30m, 0 or more"):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("0", 0),
        ("1700000000000", 1_700_000_000_000),
        (str(MAX_TIME_MS), MAX_TIME_MS),
        ("1970-01-01T00:00:00Z", 0),
        ("2026-12-01T08:00:00Z", 1_796_112_000_000),
        ("2026-12-01t08:00:00z", 1_796_112_000_000),
        ("2026-12-01T09:30:00+01:30", 1_796_112_000_000),
        ("2026-11-30T22:00:00-10:00", 1_796_112_000_000),
        ("2026-12-01T08:00:00-00:00", 1_796_112_000_000),
        ("2026-12-01T08:00:00.25Z", 1_796_112_000_250),
        ("2026-12-01T08:00:00.0000001Z", 1_796_112_000_001),
        ("2028-02-29T23:59:59.9999Z", 1_835_481_600_000),
    ],
)
def test_a_time_is_ms_since_1970_or_rfc_3339_and_never_early(text, time_ms):
    assert parse_time_ms(text) == time_ms


NO_TIMES = (
    *("", "-1", "1.5", "nan", str(MAX_TIME_MS + 1), "9" * 20, "5m", "2026-12-01", "2026-12-01T08:00:00"),
    *("2026-12-01 08:00:00Z", "2026-02-29T00:00:00Z", "2026-12-01T24:00:00Z", "2026-12-01T08:00:60Z"),
    *("2026-12-01T08:00:00+24:00", "2026-12-01T08:00:00+01:60", "2026-12-01T08:00:00+0100", "2026-12-01T08:00Z"),
    *("1969-12-31T23:59:59Z", "1970-01-01T00:00:00+00:01", "0000-01-01T00:00:00Z", "2026-12-01T08:00:00.Z"),
    *("2026-12-01T08:00:00Z ", "2026-12-01T08:00:00Z\n"),
)


@pytest.mark.parametrize("text", NO_TIMES)
def test_anything_else_is_no_time(text):
    with pytest.raises(InvalidOptionError, match=r"^AT is ms since 1970, or a time such as 2026-12-01T08:00:00Z"):
        parse_time_ms(text, "AT")


ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(1971, 1, 1), timezones=ZONES))
def test_every_time_that_python_writes_is_read(moment):
    microseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert parse_time_ms(moment.isoformat()) == -(-microseconds // 1000)  # rounded up


@given(st.text(alphabet="0123456789-+:.TZtz nµuhdms", max_size=40))
def test_any_text_is_a_value_or_an_error(text):
    for parse, error in ((parse_seconds, InvalidDelayError), (parse_time_ms, InvalidOptionError)):
        with suppress(error):
            assert parse(text) >= 0


# --- where they occur -----------------------------------------------------------------------------------------


def test_publish_options_take_them():
    options = parse_words([b"DELAY", b"1h30m", b"TTL", b"2d"])
    assert (options.delay_seconds, options.ttl_seconds) == (5400, 172_800)
    assert parse_words([b"AT", b"2026-12-01T08:00:00Z"]).at_ms == 1_796_112_000_000


@pytest.mark.parametrize("words", [[b"TTL", b"0s"], [b"TTL", b"200000d"], [b"AT", b"5m"]])
def test_their_bounds_stay(words):
    with pytest.raises(InvalidOptionError):
        parse_words(words)


def test_a_group_begins_at_a_time_as_well_as_at_a_message():
    assert parse_start(b"2026-12-01T08:00:00Z") == parse_start(b"1796112000000") == FromTime(1_796_112_000_000)
    assert parse_start(b"2026-12") == FromMessage(2026, 12)
    assert parse_start(b"0-17,1-5") == FromMessages({0: 17, 1: 5})
    with pytest.raises(InvalidOptionError, match="the id of a message, ms since 1970, or a time such as 2026"):
        parse_start(b"2026-12-01")


def test_schedules_take_them():
    assert parse_every_ms("1m30s") == 90_000


SETTINGS = {"lease_seconds": "5m", "ttl_seconds": "2d", "retry_delays": "1s, 5, 1m", "group_idle_seconds": "1h"}
VALUES = (300, 172_800, (1, 5, 60), 3600)


def test_settings_take_them_over_resp():
    texts = [text for item in SETTINGS.items() for text in item]
    settings = DEFAULT_SETTINGS.with_changes(parse_texts([*texts, "paused_in_until_ms", "2026-12-01T08:00:00Z"]), b"t")
    assert tuple(getattr(settings, name) for name in SETTINGS) == VALUES
    assert settings.paused_in_until_ms == 1_796_112_000_000


def test_settings_take_them_as_json():
    values = SETTINGS | {"retry_delays": ["1s", 5, "1m"], "paused_in_until_ms": "2026-12-01T08:00:00Z"}
    settings = DEFAULT_SETTINGS.with_changes(values, b"t")
    assert tuple(getattr(settings, name) for name in SETTINGS) == VALUES
    assert settings.paused_in_until_ms == 1_796_112_000_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("lease_seconds", "13h"), ("lease_seconds", "5 m"), ("group_idle_seconds", "59s"), ("retry_delays", ["1w"])),
        *(("paused_in_until_ms", "5m"), ("max_messages", "5m"), ("retry_factor", "5m"), ("max_rate", "1s")),
    ],
)
def test_settings_refuse_what_is_out_of_range_or_no_duration(name, value):
    with pytest.raises(InvalidSettingError, match=f"^{name} must be "):
        DEFAULT_SETTINGS.with_changes({name: value}, b"t")
