"""How long what is in memory is that of the store: an epoch, which ends when the store fails and memory is dropped.

    act ─▶ waits ─▶ goes on ─▶ waits ─▶ …            each time it goes on: is it the epoch in which it began?
                                └ no: EpochEndedError, at the place where it waited, as if it were cancelled there

What an act has found out before it waits (a topic, a partition, a cursor) means nothing in the next epoch: it was
dropped, which is neither deleted nor settled. So every act that waits in the middle runs inside one of the three below.
They look each time that anything is waited for: a read, a commit, a lock, a pause. An act needs no check of its own,
and cannot forget one.

    repeat      an act that has changed nothing until it returns: it begins anew, and refuses if the store is not open
    once        any other: UnavailableError
    background  work that the next epoch begins by itself: it just ends

An act that changes something and then waits for the commit does that outside: the commit knows what became of it.
"""

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, TypeVar

from miniqueue.errors import UnavailableError

T = TypeVar("T")

_Act = Coroutine[Any, Any, T]


class EpochEndedError(Exception):
    """The store has failed while an act waited; no error of the broker's, so that no act takes it for one."""


class BrokenOffError(UnavailableError):
    """The store failed meanwhile, and the act was broken off; try again."""


class Epoch:
    """Which reading of the store memory is from."""

    def __init__(self) -> None:
        self._number = 0

    def end(self) -> None:
        """Have every act that is under way broken off: memory is dropped, and read again."""
        self._number += 1

    async def repeat(self, begin: Callable[[], _Act[T]]) -> T:
        """Return what an act returns that changes nothing before it returns; it begins anew if the epoch ends."""
        while True:
            ended = EpochEndedError()
            try:
                return await self._within(begin(), ended)
            except EpochEndedError as exc:
                if exc is not ended:
                    raise  # it is that of an act of which this one is a part

    async def once(self, act: _Act[T]) -> T:
        """Return what an act returns; raises BrokenOffError if the epoch ends before."""
        ended = EpochEndedError()
        try:
            return await self._within(act, ended)
        except EpochEndedError as exc:
            if exc is not ended:
                raise
            raise BrokenOffError from exc

    async def background(self, act: _Act[None]) -> None:
        """Run an act until it ends, or the epoch does."""
        with suppress(EpochEndedError):
            await self._within(act, EpochEndedError())

    @types.coroutine
    def _within(self, act: _Act[T], ended: EpochEndedError) -> Generator[Any, None, T]:
        """Run an act; raise `ended` in it wherever it waits when it goes on in another epoch, once for each."""
        number = self._number
        fault: BaseException | None = None
        try:
            while True:
                try:
                    awaited = act.send(None) if fault is None else act.throw(fault)
                except StopIteration as returned:
                    result: T = returned.value
                    return result
                fault = None
                try:
                    yield awaited
                except BaseException as exc:  # handed on below
                    fault = exc
                is_broken_off = isinstance(fault, asyncio.CancelledError | GeneratorExit | EpochEndedError)
                if self._number != number and not is_broken_off:
                    number, fault = self._number, ended
        finally:
            del fault  # its traceback has this frame: a cycle, which would keep what a cancelled act has read
