r"""Making foreign text safe to show to a person: on a terminal, in a log line, in an error.

Peers choose topic names, header values and payloads, and a terminal obeys what it is sent: ESC starts a
command, CR overwrites the line, LF forges the next one, U+202E turns the text round. So nothing of theirs is
shown raw:

    "caf\u00e9"     -> café            what is printable stays
    "a\x1b[2J\n"    -> a\x1b[2J\n        the rest is written as Python would write it
    b"a\xff"        -> a\xff            bytes have no encoding: everything but ASCII is written so
"""

MAX_SHOWN_CHARS = 200  # enough to recognise a value, too little to flood a log


def escape(foreign: str | bytes) -> str:
    """Return `foreign` as printable text of one line and at most `MAX_SHOWN_CHARS` characters."""
    start = foreign[: MAX_SHOWN_CHARS + 1]  # cut first: the work must not grow with what a peer sends
    if isinstance(start, bytes):
        return cut(start.decode("latin-1").encode("unicode_escape").decode("ascii"))
    return cut(start if start.isprintable() else start.encode("unicode_escape").decode("ascii"))


def quote(text: str) -> str:
    """Return `text` as an ASCII literal in quotes, cut like `escape` does."""
    return cut(ascii(text[: MAX_SHOWN_CHARS + 1]))


def cut(text: str) -> str:
    """Return `text`, or its start and an ellipsis when it is over `MAX_SHOWN_CHARS` characters."""
    return text if len(text) <= MAX_SHOWN_CHARS else text[: MAX_SHOWN_CHARS - 3] + "..."
