"""A line of an import is no longer than a message can make it."""

import io

import pytest

from miniqueue.errors import InvalidLineError
from miniqueue.tools import import_


def test_a_line_that_is_too_long_is_named_by_its_number_before_it_is_read_whole():
    file = io.BytesIO(b"12345\n\n" + b"x" * 1000)
    lines = import_._bounded(file, 6)
    assert [next(lines), next(lines)] == [b"12345\n", b"\n"]
    with pytest.raises(InvalidLineError, match=r"line 3: longer than 6 bytes.*-max-message-size"):
        next(lines)
    assert file.tell() == 7 + 7


def test_an_import_takes_the_limit_from_the_setting(tmp_path, monkeypatch):
    monkeypatch.setattr(import_, "MAX_OTHER_BYTES", 10)
    (tmp_path / "lines").write_bytes(b" " * 200 + b"\n")
    words = ["-db", str(tmp_path / "store"), str(tmp_path / "lines")]
    with pytest.raises(InvalidLineError, match="line 1: longer than 16 bytes"):
        import_.run(["-max-message-size", "1", *words], {})
    assert import_.run(["-max-message-size", "100", *words], {}) == 0
    assert (tmp_path / "store" / "db").stat().st_mode & 0o777 == 0o700
