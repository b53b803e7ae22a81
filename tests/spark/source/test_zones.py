"""A time without a zone is in that of the session, by whatever name Spark has for it."""

import re
from datetime import UTC, datetime

import pytest

from miniqueue.errors import ConfigError
from miniqueue.spark.zones import in_zone

NOON = datetime.fromisoformat("2026-07-01T12:00")


@pytest.mark.parametrize(
    ("zone", "hour"),
    [
        ("UTC", 12),
        ("Z", 12),
        ("GMT", 12),
        ("Etc/UTC", 12),
        ("Europe/Berlin", 10),
        ("+02:00", 10),
        ("GMT+2", 10),
        ("UTC+02:00", 10),
        ("-8:00", 20),
        ("UT-0800", 20),
    ],
)
def test_a_time_without_a_zone_is_in_that_of_the_session(zone, hour):
    assert in_zone(NOON, zone) == datetime(2026, 7, 1, hour, tzinfo=UTC)


def test_a_time_with_a_zone_stays_as_it_is():
    assert in_zone(NOON.replace(tzinfo=UTC), "Europe/Berlin") == datetime(2026, 7, 1, 12, tzinfo=UTC)


def test_without_a_session_it_is_in_that_of_the_machine():
    assert in_zone(NOON, "") == NOON.astimezone()


@pytest.mark.parametrize("zone", ["Middle/Earth", "../etc/passwd", "+30:00", "PXT"])
def test_a_zone_that_is_not_known_is_named(zone):
    with pytest.raises(ConfigError, match=re.escape(f"unknown time zone '{zone}' in spark.sql.session.timeZone")):
        in_zone(NOON, zone)
