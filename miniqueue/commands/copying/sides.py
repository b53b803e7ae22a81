"""The clients of a copy: a refusal names the broker, and the topic or the role that is missing."""

from collections.abc import Sequence
from typing import Any, TypeVar

from miniqueue.commands.shell.refusals import details_of
from miniqueue_client import Client, RefusedError
from miniqueue_client.calls.call import Call, Word

T = TypeVar("T")


class Side(Client):
    """A client of the source or the target."""

    def execute(self, call: Call[T]) -> T:
        """Carry out a call; raises ClientError."""
        try:
            return super().execute(call)
        except RefusedError as exc:
            raise self._named(exc, call.words) from exc

    def execute_all(self, calls: Sequence[Call[T]]) -> list[T | RefusedError]:
        """Carry out calls; the result of a refused call is its RefusedError. Raises ClientError."""
        outcomes = super().execute_all(calls)
        return [
            self._named(outcome, call.words) if isinstance(outcome, RefusedError) else outcome
            for call, outcome in zip(calls, outcomes, strict=True)
        ]

    def _carry_out(self, calls: Sequence[Call[Any]]) -> list[Any]:
        try:
            return super()._carry_out(calls)
        except RefusedError as exc:
            # The text of a missing right names the command, but not the topic.
            refused = next((call for call in calls if f"'{call.words[0]!s}'".lower() in exc.text), calls[0])
            raise self._named(exc, refused.words) from exc

    def _named(self, refused: RefusedError, words: tuple[Word, ...]) -> RefusedError:
        return RefusedError(refused.code, f"{refused.text}{details_of(refused, words)}; said by {self.address}")
