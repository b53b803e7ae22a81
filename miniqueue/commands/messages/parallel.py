"""Several consumers at a time, each in a thread of its own, so that several programs run at a time.

consumer 1 ─▶ program ─┐
consumer 2 ─▶ program ─┤  the first one that fails, or a signal, stops all of them
consumer 3 ─▶ program ─┘
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from miniqueue.commands.messages.consuming import Consumer
from miniqueue.commands.messages.stopping import Stopping

#: Maximum number of consumers: each has a thread and a connection.
MAX_CONSUMERS: Final = 100
#: How long a signal can take to be obeyed.
_SIGNAL_SECONDS: Final = 0.2


def shares_of(count: int | None, consumer_count: int) -> list[int | None]:
    """Return how many messages each consumer handles at most; fewer consumers if there are not so many messages."""
    if count is None:
        return [None] * consumer_count
    size, larger_count = divmod(count, consumer_count)
    return [size + (index < larger_count) for index in range(min(consumer_count, count))]


def run_all(consumers: Sequence[Consumer], stopping: Stopping, end_programs: Callable[[], None]) -> None:
    """Run consumers until all of them have ended; raises what the first one raises that fails.

    If an exception arrives meanwhile, such as a second Ctrl-C, the programs are asked to end.
    """
    if len(consumers) == 1:
        consumers[0].run()
        return
    outcomes: list[BaseException | None] = []
    ended: SimpleQueue[None] = SimpleQueue()

    def run(consumer: Consumer) -> None:
        outcome = None
        try:
            consumer.run()
        except BaseException as exc:  # raised below, in the thread that waits
            outcome = exc
            stopping.finish()
        outcomes.append(outcome)
        ended.put(None)

    def wait() -> None:
        # Not `Thread.join`: if an exception interrupts it, it mistakes the thread for one that has ended. A signal that
        # the system delivers to another thread does not end a wait: its handler runs when the wait has timed out.
        while len(outcomes) < len(consumers):
            with suppress(Empty):
                ended.get(timeout=_SIGNAL_SECONDS)

    for consumer in consumers:
        threading.Thread(target=run, args=(consumer,), daemon=True).start()
    try:
        wait()
    except BaseException:
        stopping.finish()
        end_programs()
        wait()
        raise
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
