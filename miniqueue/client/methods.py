"""What turns a function that makes a call into a method that carries it out.

So the functions of `message_calls` and its neighbours are written, typed and documented once for both clients:

    publish = blocking(message_calls.publish)       client.publish("t", b"x")            carries it out, returns the id
    publish = awaitable(message_calls.publish)      await client.publish("t", b"x")      the same
"""

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from miniqueue.client.call import Call

P = ParamSpec("P")
T = TypeVar("T")


class Executor(Protocol):
    """A client that waits for its replies."""

    def execute(self, call: Call[T]) -> T:
        """Carry out a call."""


class AsyncExecutor(Protocol):
    """A client whose replies are awaited."""

    async def execute(self, call: Call[T]) -> T:
        """Carry out a call."""


def blocking(make: Callable[P, Call[T]]) -> Callable[Concatenate[Executor, P], T]:
    """Return a method that carries out what `make` makes."""

    def method(self: Executor, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.execute(make(*args, **kwargs))

    _describe(method, make)
    return method


def awaitable(make: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncExecutor, P], Coroutine[Any, Any, T]]:
    """Return a coroutine method that carries out what `make` makes."""

    async def method(self: AsyncExecutor, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.execute(make(*args, **kwargs))

    _describe(method, make)
    return method


def _describe(method: Any, make: Callable[..., Any]) -> None:  # noqa: ANN401 - no type says that functions have these
    """Give a method the name, the text and the parameters of `make`, for `help` and for editors."""
    functools.update_wrapper(method, make)
    del method.__wrapped__  # or `inspect` would take its first parameter for `self`
    signature = inspect.signature(make)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    returned = getattr(signature.return_annotation, "__args__", (signature.return_annotation,))[0]
    method.__signature__ = signature.replace(
        parameters=[first, *signature.parameters.values()], return_annotation=returned
    )
