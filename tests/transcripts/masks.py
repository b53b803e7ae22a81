"""What the records leave out: the one table of what differs from run to run, and cannot be handed in."""

import re

from miniqueue import __version__

_VERSION = re.escape(__version__.encode())

#: A pattern, and what stands in its place. Lengths of RESP strings that hold one of these go with it.
MASKS: tuple[tuple[re.Pattern[bytes], bytes], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), shown)
    for pattern, shown in (
        (rb"\$\d+\r\n(?=# [A-Z][a-z]+\r\n)", rb"$<length>\r\n"),  # INFO
        (rb"^(process_id|uptime_in_seconds|used_memory):\d+", rb"\1:<number>"),
        (rb"^(date:) [^\r\n]+", rb"\1 <date>"),
        (rb'"uptime_seconds":[0-9.]+', rb'"uptime_seconds":<number>'),
        (rb"^(process_[a-z_]+) [0-9.e+-]+$", rb"\1 <number>"),
        (rb"\$\d+\r\n" + _VERSION + rb"\r\n", rb"$<length>\r\n<version>\r\n"),  # HELLO
        (rb'(?<=[ v"])' + _VERSION + rb'(?=["\r\n])', rb"<version>"),
    )
)


def masked(data: bytes) -> bytes:
    """Return bytes without what differs from run to run."""
    for pattern, shown in MASKS:
        data = pattern.sub(shown, data)
    return data
