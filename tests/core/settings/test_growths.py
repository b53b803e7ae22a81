"""What a spread topic remembers of having had fewer parts."""

import pytest

from miniqueue.core.options.publish import MAX_KEY_BYTES
from miniqueue.core.settings.settings import DEFAULT_SETTINGS, of_members, parse_texts, text_of
from miniqueue.core.settings.spreading import NEVER_GREW, earlier_of, settings_of_part
from miniqueue.errors.requests import InvalidSettingError

GREW = ((2, 1_000_000), (4, 1_500_000))
SETTINGS = DEFAULT_SETTINGS._replace(spread=8, spread_before=GREW)


def test_a_dedup_id_can_be_known_where_it_was_for_its_window_and_some_more():
    assert earlier_of(SETTINGS, 1_100_000) == ([2, 4], [2, 4])
    assert earlier_of(SETTINGS, 1_000_000 + 180_000) == ([2, 4], [4])
    assert earlier_of(SETTINGS, 1_500_000 + 180_000) == ([2, 4], [])
    assert earlier_of(DEFAULT_SETTINGS, 0) == ([], [])


def test_what_there_was_is_no_setting_of_a_part():
    assert settings_of_part(SETTINGS).spread_before == ()


def test_what_there_was_can_be_stored_and_written():
    assert of_members(SETTINGS.members()) == SETTINGS
    text = text_of(GREW)
    assert of_members(parse_texts(["spread_before", text])).spread_before == GREW


@pytest.mark.parametrize("text", ["4", "x 17", "4 -1", "4 17 8"])
def test_other_texts_are_refused(text):
    with pytest.raises(InvalidSettingError):
        parse_texts(["spread_before", text])


@pytest.mark.parametrize("value", [4, "4 17", [[4]], [[4, -1]]])
def test_other_values_are_refused(value):
    with pytest.raises(InvalidSettingError):
        of_members({"spread_before": value})


def test_the_dedup_id_of_a_batch_says_among_how_many_parts_it_was_cut_but_the_first_time():
    earlier = earlier_of(SETTINGS, 0)
    ids = [earlier.batch_id(b"7f?digest=a", count) for count in (2, 4, 8)]
    assert ids == [b"7f?digest=a", b"7f\x1f4?digest=a", b"7f\x1f8?digest=a"]
    assert NEVER_GREW.batch_id(b"7f", 8) == b"7f"


def test_the_dedup_id_of_a_batch_never_gets_too_long():
    longest = b"i" * MAX_KEY_BYTES
    ids = {earlier_of(SETTINGS, 0).batch_id(each, 64) for each in (longest, longest[:-1] + b"j", longest[:-3])}
    assert len(ids) == 3
    assert max(map(len, ids)) <= MAX_KEY_BYTES
