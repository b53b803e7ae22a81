r"""A command of many words of one size: what a consumer sends that settles many messages together.

Knows the framing of commands. Does not know what their words mean.

    *102 CRLF $3 CRLF ACK CRLF $6 CRLF orders | CRLF $19 CRLF | first | CRLF $19 CRLF | second | CRLF $19 CRLF | … CRLF
              └─────────── head ────────────┘   └── line ───┘           └──── line ───┘          └──── line ───┘

Such bytes need no parser: each word stands a fixed way behind the one before. The proof that this is what a parser
would have found is that the words, with the line between them, are the very bytes that were read.

A receipt takes half of the time that hiredis takes with the checks around it (`resp_reader`).
"""

import re
import struct
from typing import Final

from miniqueue.wire.resp_limits import Limits
from miniqueue.wire.resp_parser import Command

#: Up to the line of the second of these words; those before it have no end of a line in them.
_BEGINNING: Final = re.compile(
    rb"\*([1-9]\d{1,3})((?:\r\n\$\d{1,3}\r\n[^\r\n]*+){1,2}?)(\r\n\$(\d{1,7})\r\n)[^\r\n]*+\3"
)
#: With fewer words it takes no less time.
_MANY: Final = 16


def split_alike(data: bytes, limits: Limits) -> tuple[Command, int] | None:
    """Return the command of many words of one size that `data` begins with, and its length.

    One or two words of any size stand in front. None if `data` begins with anything else, which may be such a command
    in an unusual spelling, or one that is too large.
    """
    found = _BEGINNING.match(data)
    if found is None:
        return None
    head, line = found[2].split(b"\r\n")[2::2], found[3]
    count, size = int(found[1]) - len(head), int(found[4])
    start, step = found.end(3), size + len(line)
    end = start + step * count - len(line)
    is_within = len(head) + count <= limits.max_words and max(size, *map(len, head)) <= limits.max_bulk_bytes
    if count < _MANY or not is_within or not end + 2 <= len(data) <= limits.max_command_bytes:
        return None
    words = struct.unpack_from(f"{size}s{len(line)}x" * (count - 1) + f"{size}s", data, start)
    if line.join(words) + b"\r\n" != data[start : end + 2] or line != b"\r\n$%d\r\n" % size:
        return None
    return ([*head, *words], end + 2) if _spelled(head) == found[2] else None


def _spelled(head: Command) -> bytes:
    return b"".join([b"\r\n$%d\r\n%b" % (len(word), word) for word in head])
