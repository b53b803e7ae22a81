"""What the command answers, and what it makes of an interrupt before anybody listens to signals."""

import importlib

from miniqueue import __version__, cli


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_start_that_is_interrupted_ends_without_a_word(monkeypatch, capfd):
    monkeypatch.setattr(cli, "_serve", interrupt)
    assert cli.main([], {}) == cli.INTERRUPTED
    assert capfd.readouterr() == ("", "")


def test_a_tool_that_is_interrupted_ends_without_a_word(monkeypatch, capfd):
    monkeypatch.setattr(importlib, "import_module", interrupt)
    assert cli.main(["check"], {}) == cli.INTERRUPTED
    assert capfd.readouterr() == ("", "")


def test_help_and_version_are_commands(capfd):
    for words, start in (
        (["help"], "Usage: miniqueue [flags]"),
        (["version"], f"miniqueue {__version__}\n"),
        (["help", "backup"], "Usage: miniqueue backup "),
    ):
        assert cli.main(words, {}) == 0
        assert capfd.readouterr().out.startswith(start)
