"""A call: the words of one command, and what its reply means.

Does not know connections, so that the blocking client and the client for asyncio send and understand the same. A word
is bytes, or a value with one unambiguous encoding: a str as UTF-8, an integer as decimal digits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeAlias, TypeVar, overload
from uuid import uuid4

from miniqueue_client.calls.errors import RefusedError, is_done_perhaps, is_passing
from miniqueue_client.errors import ClientError, ConnectError

T = TypeVar("T")

Word: TypeAlias = bytes | str | int
#: A duration: a number of seconds, or a `timedelta`.
Seconds: TypeAlias = float | timedelta
#: The error text for a call with a word of another type.
NO_WORD: Final = "invalid type of an argument; must be bytes, str or int"
#: A reply in version 3 of RESP as redis-py returns it: None, bytes, numbers, lists and dicts of these; a refusal is a
#: RefusedError.
Reply: TypeAlias = Any

#: The last command of a transaction.
EXEC: Final = ("EXEC",)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
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
    results_of_codes: Mapping[str, T] = field(default_factory=dict)
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
    """Whether all calls of one pipeline can be repeated after `error`, which one of them met.

    In a transaction, none was carried out without its last command.
    """
    if len(calls) == 1 or calls[-1].words == EXEC:
        return calls[-1].may_follow(error)
    return isinstance(error, ConnectError) or (is_passing(error) and all(call.is_repeatable for call in calls))


def raise_what_passes(calls: Sequence[Call[Any]], replies: Sequence[Reply]) -> None:
    """Raise the first refusal among the replies after which all calls can be repeated, if there is one."""
    for reply in replies:
        if isinstance(reply, RefusedError) and may_follow(calls, reply):
            raise reply


def seconds_of(duration: Seconds) -> float:
    """Return a duration as a number of seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


@overload
def seconds_word(duration: Seconds) -> str: ...
@overload
def seconds_word(duration: None) -> None: ...
def seconds_word(duration: Seconds | None) -> str | None:
    """Encode a duration as the broker reads it: decimal seconds, without an exponent, to a microsecond; keep None."""
    return None if duration is None else f"{seconds_of(duration):.6f}".rstrip("0").rstrip(".")


@overload
def time_word(at: datetime) -> int: ...
@overload
def time_word(at: None) -> None: ...
def time_word(at: datetime | None) -> int | None:
    """Encode a time, which is local time without a time zone, in ms since 1970; keep None."""
    return None if at is None else round(at.timestamp() * 1000)


def options(**values: Word | None) -> tuple[Word, ...]:
    """Return the words of the options that are not None: a name and a value for each."""
    return tuple(word for name, value in values.items() if value is not None for word in (name.upper(), value))


def side_words(value: str | None) -> tuple[Word, ...]:
    """Return the value as the only word; no words for None."""
    return () if value is None else (value,)
