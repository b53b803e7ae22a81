"""Transactions: calls that are collected, and carried out together, all or none.

    with client.transaction() as tx:         MULTI
        tx.publish("orders", b"one")         PUB orders one DEDUP …        the end of the block sends all in one piece
        tx.ack("carts", message)             ACK carts 5f0c-17
                                             EXEC                          [id, OK]
    tx.results                               an exception in the block: nothing is sent

If the reply is lost, the outcome is unknown. A transaction is repeated then if it only publishes, and each publish has
a dedup id: what was stored is a duplicate the second time. A settle cannot be repeated: the second time its receipt is
unknown, and the broker refuses the transaction, done or not.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeAlias

from miniqueue_client.calls import answers, messages, tracing
from miniqueue_client.calls.call import EXEC, Call, Reply
from miniqueue_client.calls.errors import RefusedError
from miniqueue_client.calls.methods import describe

if TYPE_CHECKING:
    from typing_extensions import Self

P = ParamSpec("P")

#: Carries out the calls of a transaction, all or none; returns their results.
_CarryOut: TypeAlias = Callable[[Sequence[Call[Any]]], list[Any]]
_AsyncCarryOut: TypeAlias = Callable[[Sequence[Call[Any]]], Awaitable[list[Any]]]
_SETTLES: Final = frozenset({"ACK", "NACK", "BACK", "DACK", "REJECT", "EXTEND"})


def _same(reply: Reply) -> Reply:
    return reply


def pipeline_of(calls: Sequence[Call[Any]]) -> list[Call[Any]]:
    """Return the calls of the pipeline that carries out a transaction."""
    queued = [replace(call, parse=_same, results_of_codes={}, with_id=None) for call in calls]
    is_repeatable = all(call.is_repeatable and call.words[0] not in _SETTLES for call in calls)
    return [Call(("MULTI",), answers.nothing), *queued, Call(EXEC, _same, is_repeatable=is_repeatable)]


def results_of(calls: Sequence[Call[Any]], outcomes: Sequence[Any]) -> list[Any]:
    """Return the results of the calls of a transaction; raises the RefusedError of the first refusal."""
    for outcome in outcomes:
        if isinstance(outcome, RefusedError):
            raise outcome
    return [call.result_of(reply) for call, reply in zip(calls, outcomes[-1], strict=True)]


def _collecting(
    make: Callable[P, Call[Any]], trace: tracing.Tracing | None = None
) -> Callable[Concatenate["Collected", P], None]:
    """Return a method that collects the call that `make` returns."""
    signature = inspect.signature(make)

    def method(self: "Collected", /, *args: P.args, **kwargs: P.kwargs) -> None:
        if trace is None or not tracing.is_active():
            return self.add(make(*args, **kwargs))
        bound = signature.bind(*args, **kwargs)
        with trace(make.__name__, {}, bound.arguments):
            return self.add(make(*bound.args, **bound.kwargs))

    describe(method, make, None)
    return method


class Collected:
    """The calls of a transaction: methods with the names and arguments of those of the client.

    Args:
      deduplicates: whether each publish gets a dedup id.

    Attributes:
      results: the results of the calls, in order, after the block.
    """

    def __init__(self, *, deduplicates: bool) -> None:
        self._deduplicates = deduplicates
        self._calls: list[Call[Any]] = []
        self.results: list[Any] = []

    def add(self, call: Call[Any]) -> None:
        """Add a publish or a settle that a function of `calls` returned."""
        self._calls.append(call.kept_from_doubling(self._deduplicates))

    def _take(self) -> list[Call[Any]]:
        """Return the calls of the block that ends; another block begins without them, and without its results."""
        calls, self._calls, self.results = self._calls, [], []
        return calls

    publish = _collecting(messages.publish, tracing.creating)
    publish_json = _collecting(messages.publish_json, tracing.creating)
    publish_many = _collecting(messages.publish_many, tracing.creating)
    publish_each = _collecting(messages.publish_each, tracing.creating)
    ack = _collecting(messages.ack)
    nack = _collecting(messages.nack)
    back = _collecting(messages.back)
    dack = _collecting(messages.dack)
    reject = _collecting(messages.reject)
    extend = _collecting(messages.extend)


class Transaction(Collected):
    """A transaction of a blocking client: the end of the `with` block carries it out.

    Raises, at the end of the block: RefusedError with the number of the call that is impossible, if nothing was done;
    DisconnectedError, or RefusedError with the code UNKNOWN, if all or nothing was done.
    """

    def __init__(self, carry_out: _CarryOut, *, deduplicates: bool) -> None:
        super().__init__(deduplicates=deduplicates)
        self._carry_out = carry_out

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        calls = self._take()
        if kind is None and calls:
            self.results = self._carry_out(calls)


class AsyncTransaction(Collected):
    """A transaction of a client for asyncio: as `Transaction`, with `async with`; its methods are not awaited."""

    def __init__(self, carry_out: _AsyncCarryOut, *, deduplicates: bool) -> None:
        super().__init__(deduplicates=deduplicates)
        self._carry_out = carry_out

    async def __aenter__(self) -> "Self":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        calls = self._take()
        if kind is None and calls:
            self.results = await self._carry_out(calls)
