"""Epochs: the time during which memory agrees with the store; an epoch ends when the store fails and memory is dropped.

    act ─▶ waits ─▶ continues ─▶ waits ─▶ …          each time it continues: is this the epoch in which it began?
                                  └ no: EpochEndedError, at the await where it waited, as if it were cancelled there

What an act has read before it waits (a topic, a partition, a cursor) means nothing in the next epoch: the object was
dropped, which is neither deleted nor settled. So every act that waits in the middle runs inside one of the three
methods below. They check the epoch after every wait: a read, a commit, a lock, a pause. So an act needs no check of
its own, and cannot forget one.

    repeat      for an act that changes nothing before it returns: it is run again, and fails if the store is not open
    once        for any other act: raises BrokenOffError
    background  for work that the next epoch starts by itself: the work ends, or does not begin

An act that changes something and then waits for the commit waits outside: the commit reports what became of the change.
"""

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, TypeVar

from miniqueue.errors import BrokenOffError

T = TypeVar("T")

_Act = Coroutine[Any, Any, T]


class EpochEndedError(Exception):
    """The store failed while an act waited; not an error of the broker, so that no act handles it as one."""


class Epoch:
    """The current epoch; `end` begins the next one."""

    def __init__(self) -> None:
        self._number = 0

    def end(self) -> None:
        """End the epoch: abort every act in progress, because memory is dropped and read again."""
        self._number += 1

    async def repeat(self, begin: Callable[[], _Act[T]]) -> T:
        """Return the result of an act that changes nothing before it returns; run it again if the epoch ends."""
        while True:
            ended = EpochEndedError()
            try:
                return await self._within(begin(), ended)
            except EpochEndedError as exc:
                if exc is not ended:
                    raise  # It belongs to an outer act, of which this act is a part.

    async def once(self, act: _Act[T]) -> T:
        """Return the result of an act; raises BrokenOffError if the epoch ends first."""
        ended = EpochEndedError()
        try:
            return await self._within(act, ended)
        except EpochEndedError as exc:
            if exc is not ended:
                raise
            raise BrokenOffError from exc

    def background(self, act: _Act[None]) -> _Act[None]:
        """Return a coroutine that runs an act until the act ends or the current epoch ends.

        If the epoch ends before the coroutine begins, the act never begins, and none of its `finally` blocks runs.
        """
        return self._in_background(act, self._number)

    async def _in_background(self, act: _Act[None], number: int) -> None:
        if self._number != number:
            act.close()
            return
        with suppress(EpochEndedError):
            await self._within(act, EpochEndedError())

    @types.coroutine
    def _within(self, act: _Act[T], ended: EpochEndedError) -> Generator[Any, None, T]:
        """Run an act; whenever it continues in another epoch, raise `ended` at the await, once per epoch."""
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
                except BaseException as exc:  # It is thrown into the act below.
                    fault = exc
                is_broken_off = isinstance(fault, asyncio.CancelledError | GeneratorExit | EpochEndedError)
                if self._number != number and not is_broken_off:
                    number, fault = self._number, ended
        finally:
            del fault  # Its traceback refers to this frame: a cycle, which would keep what a cancelled act has read.
