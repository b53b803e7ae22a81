"""The base of all errors that miniqueue raises on purpose.

A class says whose fault it is; `code` is the stable word that RESP clients see before the text, and HTTP clients next
to it; the docstring of a class is its default text. The server maps classes to HTTP statuses (`server.asgi.replies`).
"""

import inspect
from typing import Self


class MiniqueueError(Exception):
    """Something went wrong in miniqueue."""

    code = "ERR"

    def __init__(self, text: str = "") -> None:
        super().__init__(text or (inspect.getdoc(type(self)) or "").rstrip("."))

    def detached(self) -> Self:
        """Return this error without its traceback and cause: an error kept as a value must not keep their frames."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


def described(error: BaseException) -> str:
    """Return the kind and the text of an unexpected error, as in the last line of a traceback."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


class InternalError(MiniqueueError):
    """A bug in miniqueue; please report it."""
