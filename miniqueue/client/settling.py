"""Acknowledges together what the threads of a worker are done with at about the same time; no thread of its own.

    a thread is done ─▶ the list ─▶ nobody sends?  it sends the list, and what comes to it meanwhile, until it is empty
                                    somebody does  it goes on to its next message

So the busier a worker is, the more messages one request acknowledges, and a message alone does not wait. Tasks do the
same; the one that sends lets all those go first that are ready to run, which may be done in this turn too.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

from miniqueue.client.message import Message


class Together:
    """What is done and not acknowledged yet.

    Args:
      send: acknowledges messages, and deals with every error; never called by two threads at a time.
    """

    def __init__(self, send: Callable[[Sequence[Message]], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._done: list[Message] = []
        self._is_sending = False

    def acknowledge(self, message: Message) -> None:
        """Have a message acknowledged: when this returns it is, or another thread sees to it."""
        with self._lock:
            self._done.append(message)
            if self._is_sending:
                return
            self._is_sending = True
        try:
            while messages := self._taken():
                self._send(messages)
        except BaseException:
            self._is_sending = False  # the next one sends again
            raise

    def _taken(self) -> list[Message]:
        with self._lock:
            messages, self._done = self._done, []
            self._is_sending = bool(messages)
            return messages


class TogetherInTasks:
    """What the tasks of one event loop have done, and is not acknowledged yet.

    Args:
      send: acknowledges messages, and deals with every error; never called by two tasks at a time.
    """

    def __init__(self, send: Callable[[Sequence[Message]], Awaitable[None]]) -> None:
        self._send = send
        self._done: list[Message] = []
        self._is_sending = False

    async def acknowledge(self, message: Message) -> None:
        """Have a message acknowledged: when this returns it is, or another task sees to it."""
        self._done.append(message)
        if self._is_sending:
            return
        self._is_sending = True
        try:
            await asyncio.sleep(0)
            while messages := self.taken():
                await self._send(messages)
        finally:
            self._is_sending = False

    def taken(self) -> list[Message]:
        """Return what nobody has sent yet; nobody else will."""
        messages, self._done = self._done, []
        return messages
