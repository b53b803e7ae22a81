"""A call: the words of one command, and what its reply means.

Does not know connections, so that the blocking client and the client for asyncio send and understand the same. A word
is bytes, or a value with one unambiguous encoding: a str as UTF-8, an integer as decimal digits.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar
from uuid import uuid4

from miniqueue.client.calls.errors import RefusedError, is_done_perhaps, is_passing
from miniqueue.errors import ClientError, ConnectError

T = TypeVar("T")

Word: TypeAlias = bytes | str | int
#: The error text for a call with a word of another type.
NO_WORD: Final = "invalid type of an argument; must be bytes, str or int"
#: A reply in version 3 of RESP as redis-py returns it: None, bytes, numbers, lists and dicts of these; a refusal is a
#: RefusedError.
Reply: TypeAlias = Any

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Call(NamedTuple, Generic[T]):
    """A command and the meaning of its reply.

    Attributes:
      words: the words of the command.
      parse: converts the reply to the result.
      is_repeatable: whether the call can be repeated when it is unknown whether the broker carried it out.
      wait_seconds: how long the broker may deliberately wait before it replies, as in a long poll.
      results_of_codes: results of refusals that are not errors, by error code.
      with_id: returns the same publish with a dedup id, which makes it repeatable; None if the call is not a publish.
    """

    words: tuple[Word, ...]
    parse: Callable[[Reply], T]
    is_repeatable: bool = True
    wait_seconds: float = 0.0
    results_of_codes: Mapping[str, T] = _NOTHING
    with_id: "Callable[[str], Call[T]] | None" = None

    def kept_from_doubling(self, is_wanted: bool) -> "Call[T]":
        """Return the call with a new dedup id if it is a publish without one and `is_wanted`; else the call itself."""
        return self.with_id(uuid4().hex) if is_wanted and self.with_id is not None else self

    def may_follow(self, error: ClientError) -> bool:
        """Whether the call can be repeated after `error`."""
        return is_passing(error) and (self.is_repeatable or not is_done_perhaps(error))

    def result_of(self, reply: Reply) -> T:
        """Return the result of a reply; raises RefusedError for a refusal that is not a result."""
        if not isinstance(reply, RefusedError):
            return self.parse(reply)
        if reply.code not in self.results_of_codes:
            raise reply
        return self.results_of_codes[reply.code]

    def outcome_of(self, reply: Reply) -> T | RefusedError:
        """Return the result of a reply, or the refusal."""
        try:
            return self.result_of(reply)
        except RefusedError as refused:
            return refused


def may_follow(calls: Sequence[Call[Any]], error: ClientError) -> bool:
    """Whether all calls of one pipeline can be repeated after `error`, which one of them met."""
    if len(calls) == 1:
        return calls[0].may_follow(error)
    return isinstance(error, ConnectError) or (is_passing(error) and all(call.is_repeatable for call in calls))


def raise_what_passes(calls: Sequence[Call[Any]], replies: Sequence[Reply]) -> None:
    """Raise the first refusal among the replies after which all calls can be repeated, if there is one."""
    for reply in replies:
        if isinstance(reply, RefusedError) and may_follow(calls, reply):
            raise reply


def seconds_word(seconds: float) -> str:
    """Encode seconds as the broker reads them: decimal, without an exponent, to a microsecond."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def options(**values: Word | None) -> tuple[Word, ...]:
    """Return the words of the options that are not None: a name and a value for each."""
    return tuple(word for name, value in values.items() if value is not None for word in (name.upper(), value))


def side_words(value: str | None) -> tuple[Word, ...]:
    """Return the value as the only word; no words for None."""
    return () if value is None else (value,)
