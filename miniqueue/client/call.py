"""One thing that a client asks of a broker: the words of a command, and what its reply means.

Knows no connection, so that the blocking client and the one for asyncio say and hear the same. A word is bytes, or
what becomes bytes in one way only: a str as UTF-8, a whole number as decimal digits.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar
from uuid import uuid4

from miniqueue.client.refusals import RefusedError, is_done_perhaps, is_passing
from miniqueue.errors import ClientError, ConnectError

T = TypeVar("T")

Word: TypeAlias = bytes | str | int
#: What is wrong with a call that has something else among its words.
NO_WORD: Final = "what is sent is bytes, a str or a number"
#: What redis-py makes of a reply in version 3 of RESP: None, bytes, numbers, lists and dicts of these; for a refusal
#: RefusedError.
Reply: TypeAlias = Any

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Call(NamedTuple, Generic[T]):
    """A command and its reply.

    Attributes:
      words: of the command.
      parse: makes the result of the reply.
      is_repeatable: whether it may be asked again when nobody knows whether it was done.
      wait_seconds: how long the broker may take by intent, as with a long poll.
      results_of_codes: what a refusal means that is a result like any other, by its word.
      with_id: makes of it, with an id against duplicates, a publish that is repeatable; None if it is no publish.
    """

    words: tuple[Word, ...]
    parse: Callable[[Reply], T]
    is_repeatable: bool = True
    wait_seconds: float = 0.0
    results_of_codes: Mapping[str, T] = _NOTHING
    with_id: "Callable[[str], Call[T]] | None" = None

    def kept_from_doubling(self, is_wanted: bool) -> "Call[T]":
        """Return it as one that stores its message once, however often it is asked, if it can be and `is_wanted`."""
        return self.with_id(uuid4().hex) if is_wanted and self.with_id is not None else self

    def may_follow(self, error: ClientError) -> bool:
        """Whether it may be asked again after `error`."""
        return is_passing(error) and (self.is_repeatable or not is_done_perhaps(error))

    def result_of(self, reply: Reply) -> T:
        """Return what a reply means; raises a refusal that is no result."""
        if not isinstance(reply, RefusedError):
            return self.parse(reply)
        if reply.code not in self.results_of_codes:
            raise reply
        return self.results_of_codes[reply.code]

    def outcome_of(self, reply: Reply) -> T | RefusedError:
        """Return what a reply means, or the refusal."""
        try:
            return self.result_of(reply)
        except RefusedError as refused:
            return refused


def may_follow(calls: Sequence[Call[Any]], error: ClientError) -> bool:
    """Whether calls that were asked together may all be asked again after `error`, which one of them met."""
    if len(calls) == 1:
        return calls[0].may_follow(error)
    return isinstance(error, ConnectError) or (is_passing(error) and all(call.is_repeatable for call in calls))


def raise_what_passes(calls: Sequence[Call[Any]], replies: Sequence[Reply]) -> None:
    """Raise a refusal after which all calls may be asked again, if there is one among the replies."""
    for reply in replies:
        if isinstance(reply, RefusedError) and may_follow(calls, reply):
            raise reply


def seconds_word(seconds: float) -> str:
    """Spell a time as the broker reads it: decimal, never with an exponent; to a microsecond."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def options(**given: Word | None) -> tuple[Word, ...]:
    """Return the words of the options that are there, each a name and a value."""
    return tuple(word for name, value in given.items() if value is not None for word in (name.upper(), value))


def side_words(value: str | None) -> tuple[Word, ...]:
    """Return the value as a word, or no word."""
    return () if value is None else (value,)
