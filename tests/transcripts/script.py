r"""Scripts: what clients say, one line each, in sections that have nothing in common.

    == publish                              a section: a broker of its own
    # why                                   for the reader
    PUBLISH orders "a b\r\n\x00"            RESP, from the client `a`
    b: SUBSCRIBE orders                     the same from another one
    POST /publish/orders -h key:value -d x  HTTP; `-H` instead of the method, below
    s: POST /subscribe/orders               HTTP, with a body that goes on
    s< '"INIT"\n'                           a part of that body; without one, its end
    monitor GET /stats                      HTTP, on the port of monitoring
    ! pass 1.5                              something that no client says, see `stage`

Words are parted by blanks. In quotes, single or double, they have the escapes of Python; `"x"*100` repeats. `$1` is the
first receipt that was heard in the section, `$-1` the last.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SCRIPTS = Path(__file__).with_name("scripts")

_WORD = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')(?:\*(\d+))?(?=\s|$)|(\S+)""")
_ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)")
_SIMPLE = {b"r": b"\r", b"n": b"\n", b"t": b"\t"}


class Section(NamedTuple):
    title: str
    lines: list[str]


def sections(name: str) -> list[Section]:
    """Return the sections of a script."""
    found: list[Section] = []
    for line in (SCRIPTS / name).read_text().splitlines():
        if line.startswith("== "):
            found.append(Section(line.removeprefix("== "), []))
        elif line and not line.startswith("#"):
            found[-1].lines.append(line)
    return found


def words_of(text: str) -> list[bytes]:
    """Return the words of a line, without quotes and escapes."""
    return list(_words(text))


def _words(text: str) -> Iterator[bytes]:
    for double, single, times, plain in _WORD.findall(text):
        if plain:
            yield plain.encode()
        else:
            yield _ESCAPE.sub(_unescaped, (double or single).encode()) * int(times or 1)


def _unescaped(found: re.Match[bytes]) -> bytes:
    escape = found[1]
    return bytes.fromhex(escape[1:].decode()) if len(escape) > 1 else _SIMPLE.get(escape, escape)


def escaped(data: bytes) -> str:
    """Return bytes as a line of printable ASCII, from which they can be had again."""
    return data.decode("latin-1").encode("unicode_escape").decode()
