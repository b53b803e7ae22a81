r"""Making foreign text safe to show: on a terminal, in a log line, in an error.

Clients choose topic names, header values, and payloads, and a terminal executes control characters: ESC starts a
command, CR overwrites the line, LF forges the next one, U+202E reverses the text. So foreign text is never shown raw:

    "caf\u00e9"     -> café            printable characters stay
    "a\x1b[2J\n"    -> a\x1b[2J\n        others are escaped as in Python
    b"a\xff"        -> a\xff            bytes have no encoding, so all that are not ASCII are escaped
    b"orders\x1f3"  -> orders          a part of a spread topic has the name of its topic
"""

from miniqueue.core.message.parts import without_parts

#: Maximum length of shown text: enough to recognize a value, too little to flood a log.
MAX_SHOWN_CHARS = 200


def escape(foreign: str | bytes) -> str:
    """Return `foreign` as printable text of one line and at most `MAX_SHOWN_CHARS` characters."""
    start = foreign[: MAX_SHOWN_CHARS + 1]  # cut first, so that the cost does not grow with the text
    if isinstance(start, bytes):
        return cut(without_parts(start.decode("latin-1")).encode("unicode_escape").decode("ascii"))
    start = without_parts(start)
    return cut(start if start.isprintable() else start.encode("unicode_escape").decode("ascii"))


def quote(text: str) -> str:
    """Return `text` as an ASCII literal in quotes, cut to `MAX_SHOWN_CHARS` characters."""
    return cut(ascii(text[: MAX_SHOWN_CHARS + 1]))


def cut(text: str) -> str:
    """Return `text`, or its start and an ellipsis if it is longer than `MAX_SHOWN_CHARS` characters."""
    return text if len(text) <= MAX_SHOWN_CHARS else text[: MAX_SHOWN_CHARS - 3] + "..."
