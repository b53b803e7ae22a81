"""Parts of an HTTP request: its body, its query, its client, and whether the client is still connected."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.types import Message, Receive, Scope

from miniqueue.broker.runtime.accounts import Memory, MemoryAccount
from miniqueue.errors import PayloadTooLargeError, RequestError

T = TypeVar("T")

#: Number of bytes of an oversized body that are read after the limit, before the error reply: a client that is still
#: sending when the connection closes may never see the reply.
MAX_DISCARDED_BYTES = 1 << 20


async def read_body(receive: Receive, max_bytes: int) -> bytes | None:
    """Return the whole body, or None if the client disconnected before its end.

    Raises PayloadTooLargeError if the body is larger than `max_bytes`; its size is the number of bytes read.
    """
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body", False) and len(body) <= max_bytes:
        return body  # fast path: most bodies arrive in one piece
    return await _joined(message, receive, max_bytes)


async def _joined(message: Message, receive: Receive, max_bytes: int) -> bytes | None:
    """Return a body that begins with `message`, or None if the client disconnected before its end."""
    parts: list[bytes] = []
    size_bytes = 0
    while message["type"] != "http.disconnect":
        part: bytes = message.get("body", b"")
        size_bytes += len(part)
        if size_bytes <= max_bytes:
            parts.append(part)
        else:
            parts.clear()
        is_whole = not message.get("more_body", False)
        if size_bytes > max_bytes and (is_whole or size_bytes > max_bytes + MAX_DISCARDED_BYTES):
            raise PayloadTooLargeError(size_bytes, max_bytes)
        if is_whole:
            return b"".join(parts)
        message = await receive()
    return None


@asynccontextmanager
async def listening(receive: Receive) -> AsyncIterator[Callable[[], bool]]:
    """Discard the rest of a request while the block runs; yield a function that returns whether its client is there."""
    listener = asyncio.ensure_future(until_gone(receive))
    try:
        yield lambda: not listener.done()
    finally:
        listener.cancel()


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of a coroutine, or end it and return None when the client disconnects."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(until_gone(receive))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def until_gone(receive: Receive) -> None:
    """Discard the rest of a request until its client disconnects; servers may not report that when a reply is sent."""
    while (await receive())["type"] != "http.disconnect":
        pass


def parameters_of(scope: Scope) -> list[tuple[str, bytes]]:
    """Return the names and the values in the query of a request, percent-decoded, in their order."""
    # Latin-1 maps each byte to one character, so that values, such as keys, can be any bytes.
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    return [(name, value.encode("latin-1")) for name, value in pairs]


def query_of(scope: Scope, names: tuple[str, ...]) -> Mapping[str, bytes]:
    """Return the query parameters of a request; raises RequestError for an unknown or repeated one."""
    return lists_of(scope, names, ())[0]


def texts_of(scope: Scope, names: tuple[str, ...]) -> Mapping[str, str]:
    """Return the query parameters of a request as text; raises RequestError for an unknown or repeated one."""
    return {name: value.decode("utf-8", "replace") for name, value in query_of(scope, names).items()}


def lists_of(
    scope: Scope, names: tuple[str, ...], lists: tuple[str, ...]
) -> tuple[Mapping[str, bytes], Mapping[str, list[bytes]]]:
    """Return the query parameters of a request, and the values of those in `lists`, which may be repeated.

    Raises RequestError for an unknown parameter, or a repeated one that is not in `lists`.
    """
    pairs = parameters_of(scope)
    options = {name: value for name, value in pairs if name not in lists}
    values: dict[str, list[bytes]] = {name: [] for name in lists}
    for name, value in pairs:
        if name in values:
            values[name].append(value)
    if options.keys() - set(names) or len(options) + sum(map(len, values.values())) < len(pairs):
        many = f"; {' and '.join(lists)} any number of times" if lists else ""
        raise RequestError(f"invalid parameters; must be among {', '.join(names)}, each at most once{many}")
    return options, values


#: The key in the state of a connection under which a server puts the account of its memory.
ACCOUNT_KEY = "miniqueue.account"
#: The key in a request under which an application passes the user whom it has authenticated to one that it contains.
SIGNED_IN_KEY = "miniqueue.user"
#: The key in a request under which there is an asynchronous function that offers messages before a reply contains them;
#: it returns whether they are taken. Without it, they are.
OFFER_KEY = "miniqueue.offer"


class HttpActor:
    """The client of a request, encoded only when it is recorded: by then the gate has authenticated the user."""

    __slots__ = ("_memory", "_scope")

    def __init__(self, scope: Scope, memory: Memory) -> None:
        self._scope = scope
        self._memory = memory

    @property
    def account(self) -> MemoryAccount:
        """The account of the connection, or of its user or address if the server shows no connections."""
        account: MemoryAccount | None = self._scope.get("state", {}).get(ACCOUNT_KEY)
        if account is not None:
            return account
        user = self._scope.get("user")
        if user is not None:
            return self._memory.of_user(user.name)
        return self._memory.of_address((self._scope.get("client") or "?")[0])

    @property
    def user(self) -> str:
        """The name of the user; empty if the broker has no users."""
        user = self._scope.get("user")
        return "" if user is None else str(user.name)

    def __bytes__(self) -> bytes:
        """Encode protocol, address, and the user, if there is one."""
        host, port = self._scope.get("client") or ("?", 0)
        user = self._scope.get("user")
        return f"http {host}:{port}{f' user {user.name}' if user else ''}".encode()
