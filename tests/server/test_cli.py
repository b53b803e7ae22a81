"""What the command makes of an interrupt that comes before anybody listens to signals."""

import importlib

from miniqueue import cli


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
