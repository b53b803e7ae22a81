"""Converts functions that return a call to methods that carry it out.

The functions of `messages` and the other modules of calls are therefore written, typed and documented once:

    publish = blocking(messages.publish)       client.publish("t", b"x")            returns the id
    publish = awaitable(messages.publish)      await client.publish("t", b"x")      returns the id
"""

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from miniqueue_client.calls import tracing
from miniqueue_client.calls.call import Call

P = ParamSpec("P")
T = TypeVar("T")


class Executor(Protocol):
    """A client whose methods block until the broker replies."""

    def execute(self, call: Call[T]) -> T:
        """Carry out a call."""

    def span_attributes(self) -> Mapping[str, object]:
        """Return the attributes of the broker in traces."""


class AsyncExecutor(Protocol):
    """A client whose methods are coroutines."""

    async def execute(self, call: Call[T]) -> T:
        """Carry out a call."""

    def span_attributes(self) -> Mapping[str, object]:
        """Return the attributes of the broker in traces."""


def blocking(make: Callable[P, Call[T]], trace: tracing.Tracing | None = None) -> Callable[Concatenate[Executor, P], T]:
    """Return a method that carries out the call that `make` returns.

    Args:
      make: a function of the modules of calls.
      trace: what traces the call, if the program traces.
    """
    signature = inspect.signature(make)

    def method(self: Executor, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if trace is None or not tracing.is_active():
            return self.execute(make(*args, **kwargs))
        bound = signature.bind(*args, **kwargs)
        with trace(make.__name__, self.span_attributes(), bound.arguments) as done:
            result = self.execute(make(*bound.args, **bound.kwargs))
            done(result)
            return result

    describe(method, make, _result_of(make))
    return method


def awaitable(
    make: Callable[P, Call[T]], trace: tracing.Tracing | None = None
) -> Callable[Concatenate[AsyncExecutor, P], Coroutine[Any, Any, T]]:
    """Return a coroutine method that carries out the call that `make` returns; see `blocking`."""
    signature = inspect.signature(make)

    async def method(self: AsyncExecutor, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if trace is None or not tracing.is_active():
            return await self.execute(make(*args, **kwargs))
        bound = signature.bind(*args, **kwargs)
        with trace(make.__name__, self.span_attributes(), bound.arguments) as done:
            result = await self.execute(make(*bound.args, **bound.kwargs))
            done(result)
            return result

    describe(method, make, _result_of(make))
    return method


def describe(method: Any, make: Callable[..., Any], returned: object) -> None:  # noqa: ANN401 - no type declares these attributes of functions
    """Copy the name, the docstring and the parameters of `make` to a method, for `help` and for editors.

    `returned` is what the method returns.
    """
    functools.update_wrapper(method, make)
    del method.__wrapped__  # otherwise `inspect` would mistake its first parameter for `self`
    signature = inspect.signature(make)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = signature.replace(
        parameters=[first, *signature.parameters.values()], return_annotation=returned
    )


def _result_of(make: Callable[..., Any]) -> object:
    """Return the annotation of the result of the calls that `make` returns."""
    annotation = inspect.signature(make).return_annotation
    return getattr(annotation, "__args__", (annotation,))[0]
