"""Output of the command, and interrupts before the broker or a tool handles signals."""

import importlib

from miniqueue import __version__, cli


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_startup_prints_nothing(monkeypatch, capfd):
    monkeypatch.setattr(cli, "_serve", interrupt)
    assert cli.main([], {}) == cli.INTERRUPTED
    assert capfd.readouterr() == ("", "")


def test_an_interrupted_tool_prints_nothing(monkeypatch, capfd):
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
