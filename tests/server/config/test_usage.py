"""Help text and settings table are complete because both are generated from `SETTINGS`."""

import pytest

from miniqueue.server.config.settings_table import SETTINGS
from miniqueue.server.config.usage import option_table, usage


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_help_and_table_show_flag_default_and_meaning(setting):
    for text in (usage({"pub": "publish"}, {"check": "verify"}), option_table()):
        assert setting.help in text
        assert setting.default in text
    assert f"\n  {setting.flag}" in usage({"pub": "publish"}, {"check": "verify"})
    assert f"| `{setting.variable}` |" in option_table()


def test_help_lists_the_flags_that_are_not_settings():
    assert "-version" in usage({"pub": "publish"}, {"check": "verify"})
    assert "-h, -help" in usage({"pub": "publish"}, {"check": "verify"})


def test_help_lists_the_commands():
    assert "\n  check       verify\n" in usage({"pub": "publish"}, {"check": "verify"})


def test_help_fits_a_terminal_and_ends_its_last_line():
    assert max(map(len, usage({"pub": "publish"}, {"check": "verify"}).splitlines())) <= 110
    assert usage({"pub": "publish"}, {"check": "verify"}).endswith("\n")
    assert not usage({"pub": "publish"}, {"check": "verify"}).endswith("\n\n")
