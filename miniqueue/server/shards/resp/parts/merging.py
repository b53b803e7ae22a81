"""How the replies of all parts of a spread topic become one.

    LEN, PURGE                             :3  :4                                   ─▶ :7
    PARTITIONS                             [a]  [b, c]                              ─▶ [a, b, c]
    STATS, GROUP LIST, MEMBERS, HOLDERS    {ready 3, …}  {ready 4, …}               ─▶ {ready 7, …}
    GROUP CREATE, DELETE                   +OK  +OK                                 ─▶ +OK

A part that has no such group, or, of dead letters, does not exist yet, is left out, unless that is true of all parts.
An error of any other part is the reply: half of an answer would be a wrong one.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import hiredis

from miniqueue.server.views.wholes import Row, whole_figures, whole_group, whole_groups, whole_holders, whole_members
from miniqueue.wire.resp_replies import encode, joined_arrays

#: Makes one reply of those of the parts, none of which is an error; gets the version of the protocol.
Merge: TypeAlias = Callable[[Sequence[bytes], int], bytes]

#: Errors of a part that is left out, unless it is true of all: it has no such group, or, of dead letters, is not there.
ABSENT: Final = (b"-NOTOPIC", b"-NOGROUP")
#: Members of a reply that are maps, and those that are texts. Version 2 of the protocol has no other texts: they are
#: numbers with fractions.
_MAPS: Final = frozenset({"lags", "moving", "members"})
_TEXTS: Final = frozenset({"name", "user", "address", "id", "topic", "act", "status", "error"})


def merged(answers: Sequence[bytes], merge: Merge, protocol: int) -> bytes:
    """Return the replies of all parts as one, or the first error."""
    present = _present(answers)
    return merge(present, protocol) if (error := error_of(present)) is None else error


def error_of(answers: Sequence[bytes]) -> bytes | None:
    """Return the first error of a part that is not left out; None if there is none."""
    return next((answer for answer in _present(answers) if answer.startswith(b"-")), None)


def _present(answers: Sequence[bytes]) -> Sequence[bytes]:
    return [answer for answer in answers if not answer.startswith(ABSENT)] or answers[:1]


def parsed(answer: bytes) -> Any:  # noqa: ANN401 - whatever the reply is
    """Return the value of a reply."""
    reader = hiredis.Reader()
    reader.feed(answer)
    return reader.gets()


def map_of(value: Any) -> dict[bytes, Any]:  # noqa: ANN401 - a part of a reply
    """Return a map, which is a flat array in version 2 of the protocol."""
    return value if isinstance(value, dict) else dict(zip(value[::2], value[1::2], strict=True))


def summed(answers: Sequence[bytes], _protocol: int = 2) -> bytes:
    """Return the sum of whole numbers."""
    return b":%d\r\n" % sum(int(answer[1:]) for answer in answers)


def joined(answers: Sequence[bytes], _protocol: int = 2) -> bytes:
    """Return one array of the elements of all."""
    return joined_arrays(answers)


def last(answers: Sequence[bytes], _protocol: int = 2) -> bytes:
    """Return the last reply."""
    return answers[-1]


def figures(answers: Sequence[bytes], protocol: int) -> bytes:
    """Return the statistics of a topic, or other numbers by name."""
    return encode(whole_figures(_rows_of(answers)), protocol)


def group_figures(answers: Sequence[bytes], protocol: int) -> bytes:
    """Return the statistics of a group."""
    return encode(whole_group(_rows_of(answers)), protocol)


def groups(answers: Sequence[bytes], protocol: int) -> bytes:
    """Return the statistics of each group, by name."""
    return encode([*whole_groups(_listed(answers))], protocol)


def members(answers: Sequence[bytes], protocol: int) -> bytes:
    """Return the partitions of each member."""
    return encode(whole_members(map_of(parsed(answer)) for answer in answers), protocol)


def holders(answers: Sequence[bytes], protocol: int) -> bytes:
    """Return who holds leases, the one with most messages first."""
    return encode([*whole_holders(_listed(answers), "remaining_ms")], protocol)


def row_of(value: Any) -> Row:  # noqa: ANN401 - a part of a reply
    """Return a map by names that are texts, with numbers and texts in it."""
    return {name.decode(): _member(name.decode(), each) for name, each in map_of(value).items()}


def _rows_of(answers: Sequence[bytes]) -> list[Row]:
    return [row_of(parsed(answer)) for answer in answers]


def _listed(answers: Sequence[bytes]) -> list[Row]:
    return [row_of(each) for answer in answers for each in parsed(answer)]


def _member(name: str, value: Any) -> Any:  # noqa: ANN401 - a part of a reply
    if name in _MAPS:
        return map_of(value)
    if not isinstance(value, bytes):
        return value
    return value.decode() if name in _TEXTS else float(value)
