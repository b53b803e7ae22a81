r"""Inline commands: the lines that people type, `PUBLISH topic "two words"`.

Knows how one line becomes words. Does not know where a line ends in a stream (`resp_parser` does) nor what
the words mean.

    line   = word *( blanks word )
    word   = [ plain ] [ '"' *( char / escape ) '"' / "'" *( char / "\'" ) "'" ]   a closing quote ends it
    escape = "\x" HEX HEX / "\n" / "\r" / "\t" / "\b" / "\a" / "\" any

A web page can make a browser send HTTP to a port on the reader's own machine, and every line of that request
that reads like a command would be run. So a line that looks like HTTP is an error that ends the connection.

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

# `GET topic` and `TRACE topic id` stay possible as commands: the target or the version tells HTTP apart.
_HTTP: Final = re.compile(
    rb"(?:POST|PUT|DELETE|HEAD|OPTIONS)\s|GET\s+/|Host:|PRI \* HTTP|[A-Z]+ (?:\*|/\S*|https?://\S*) HTTP/\d",
    re.IGNORECASE,
)


def split_line(line: bytes) -> list[bytes]:
    """Split one line, without its end, into words.

    Returns:
      The words, unquoted; an empty list when there is none.

    Raises:
      ProtocolError: a quote is not closed or is followed by text, or the line is HTTP.
    """
    if _HTTP.match(line):
        raise ProtocolError("Protocol error: HTTP request on the RESP port")
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
