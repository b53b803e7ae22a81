r"""Inline commands: lines that a person types, such as `PING "are you there"`. Splits one line into words.

    line   = word *( blanks word )
    word   = [ plain ] [ '"' *( char / escape ) '"' / "'" *( char / "\'" ) "'" ]   a closing quote ends it
    escape = "\x" HEX HEX / "\n" / "\r" / "\t" / "\b" / "\a" / "\" any

A web page can make a browser send HTTP to a port of the user's machine, and other programs can be made to send lines;
each line that looks like a command would be executed. So a line of HTTP ends the connection, normally at its first
bytes, and few commands can be inline. GET is a command of both protocols: followed by a path, it is HTTP. A page can
let the browser send a method of its own to the page's origin; such a line ends with the version of HTTP.

Sources: `sdssplitargs` in Redis's sds.c; CVE-2016-10517 for the cross-protocol request.
"""

import re
from typing import Final

from miniqueue.errors import ProtocolError

_BLANKS: Final = re.compile(rb"\s*")
# The possessive quantifiers (*+) keep the work linear and keep \' from being read as backslash, end of word.
_WORD: Final = re.compile(
    rb"""([^\s"']*+)(?:"((?:\\.|[^"\\])*+)"|'((?:\\'|[^'])*+)')?(?=\s|\Z)""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}

_FOREIGN: Final = re.compile(rb"(?:POST|PUT|PRI|DELETE|HEAD|OPTIONS|PATCH|CONNECT|TRACE) |Host:", re.IGNORECASE)
_FOREIGN_GET: Final = re.compile(rb"GET ", re.IGNORECASE)
_GET_OF_A_PATH: Final = re.compile(rb"GET +[^\s/]*+/", re.IGNORECASE)
_REQUEST_LINE: Final = re.compile(rb"\sHTTP/\d[.\d]*\s*\Z", re.IGNORECASE)


def is_foreign(data: bytes, position: int, allowed: frozenset[bytes]) -> bool:
    """Return whether the line at `position` begins like HTTP.

    Args:
      data: bytes that contain the line, or its beginning.
      position: the start of the line.
      allowed: the first words, in capitals, that a line may have; GET may be among them.
    """
    if _FOREIGN.match(data, position):
        return True
    get = _GET_OF_A_PATH if b"GET" in allowed else _FOREIGN_GET
    return get.match(data, position) is not None


def is_request_line(line: bytes) -> bool:
    """Return whether a whole line ends like a request line of HTTP."""
    return _REQUEST_LINE.search(line) is not None


def split_line(line: bytes, allowed: frozenset[bytes]) -> list[bytes]:
    """Split one line, without its end, into words.

    Args:
      line: the line.
      allowed: the first words, in capitals, that a line may have.

    Returns:
      The words, unquoted; an empty list if there are none.

    Raises:
      ProtocolError: the first word is not allowed, or a quote is not closed or is followed by text.
    """
    first = line.split(None, 1)[:1]
    if first and first[0].upper() not in allowed:
        words_allowed = b", ".join(sorted(allowed)).decode()
        raise ProtocolError(f"Protocol error: only {words_allowed} can be sent inline, other commands as arrays")
    words: list[bytes] = []
    position = _end_of_blanks(line, 0)
    while position < len(line):
        word = _WORD.match(line, position)
        if word is None:
            raise ProtocolError("Protocol error: unbalanced quotes in request")
        words.append(_unquote(word))
        position = _end_of_blanks(line, word.end())
    return words


def _end_of_blanks(line: bytes, position: int) -> int:
    blanks = _BLANKS.match(line, position)
    return blanks.end() if blanks else position


def _unquote(word: re.Match[bytes]) -> bytes:
    plain, double_quoted, single_quoted = word.groups(b"")
    return bytes(plain + _ESCAPE.sub(_unescape, double_quoted) + single_quoted.replace(b"\\'", b"'"))


def _unescape(escape: re.Match[bytes]) -> bytes:
    hexadecimal, character = escape.groups()
    return bytes.fromhex(hexadecimal.decode()) if hexadecimal else _ESCAPED.get(character, character)
