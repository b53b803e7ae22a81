"""Converts functions that return a call to methods that carry it out.

The functions of `messages` and the other modules of calls are therefore written, typed and documented once:

    publish = blocking(messages.publish)       client.publish("t", b"x")            returns the id
    publish = awaitable(messages.publish)      await client.publish("t", b"x")      returns the id
"""

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from miniqueue.client.calls.call import Call

P = ParamSpec("P")
T = TypeVar("T")


class Executor(Protocol):
    """A client whose methods block until the broker replies."""

    def execute(self, call: Call[T]) -> T:
        """Carry out a call."""


class AsyncExecutor(Protocol):
    """A client whose methods are coroutines."""

    async def execute(self, call: Call[T]) -> T:
        """Carry out a call."""


def blocking(make: Callable[P, Call[T]]) -> Callable[Concatenate[Executor, P], T]:
    """Return a method that carries out the call that `make` returns."""

    def method(self: Executor, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.execute(make(*args, **kwargs))

    _describe(method, make)
    return method


def awaitable(make: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncExecutor, P], Coroutine[Any, Any, T]]:
    """Return a coroutine method that carries out the call that `make` returns."""

    async def method(self: AsyncExecutor, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.execute(make(*args, **kwargs))

    _describe(method, make)
    return method


def _describe(method: Any, make: Callable[..., Any]) -> None:  # noqa: ANN401 - no type declares these attributes of functions
    """Copy the name, the docstring and the parameters of `make` to a method, for `help` and for editors."""
    functools.update_wrapper(method, make)
    del method.__wrapped__  # otherwise `inspect` would mistake its first parameter for `self`
    signature = inspect.signature(make)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    returned = getattr(signature.return_annotation, "__args__", (signature.return_annotation,))[0]
    method.__signature__ = signature.replace(
        parameters=[first, *signature.parameters.values()], return_annotation=returned
    )
