"""Receives messages of any of several topics: a request waits in all of them, and is answered once.

    start ─▶ a part waits in the group of each topic ─▶ one gets messages ─▶ all others withdraw ─▶ answer
                 ▲                                         └─── one iteration of the event loop ───┘
      a topic is created whose name fits a pattern

Each part is a receive of one topic, so no message is leased that is not in the answer. A part takes what is in memory:
only a request without any message waits for the store.

The parts begin in random order, with the room that those before them left. So no topic starves another, and nothing
has to be remembered from call to call. The answer can have messages of several topics.

Some parts begin in each iteration of the event loop, and a new topic is offered to some requests in each.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextvars import Context, copy_context
from functools import partial
from random import Random
from typing import Final

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.leases.leases import Leases
from miniqueue.broker.leases.receive import ReceivePart, ReceiveRequest, ReceiveResult
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.accounts import Purpose, account_of
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.topic_choice import MAX_TOPICS, TopicChoice
from miniqueue.errors import LimitReachedError, MiniqueueError

#: Maximum number of requests that wait with patterns: each of them is asked whenever a topic is created.
MAX_WAITING_BY_PATTERN: Final = 1_000
#: Maximum number of parts that begin in one event-loop iteration.
PARTS_IN_TURN: Final = 25
#: Maximum number of requests to which new topics are offered in one event-loop iteration; of these that begin a part.
OFFERS_IN_TURN: Final = 1_000
JOINS_IN_TURN: Final = 25
#: The memory of one part, about.
PART_BYTES: Final = 2_000

#: Messages, by the topics that they come from.
ReceivedAny = list[tuple[bytes, ReceiveResult]]
#: Returns the topics, of sorted names, that the client may consume.
Reach = Callable[[list[bytes]], Collection[bytes]]

_Answer = Callable[[ReceivedAny], None]
_Fail = Callable[[MiniqueueError], None]


class SeveralTopics:
    """Receives messages of several topics.

    Args:
      engine: provides the topics.
      leases: receives messages of one topic.
      chance: decides in which order topics are served.
    """

    def __init__(self, engine: Engine, leases: Leases, chance: Random) -> None:
        self._topics = engine.topics
        self._memory = engine.memory
        self._leases = leases
        self._chance = chance
        self._waiting: dict[ReceiveAny, None] = {}  # the requests with patterns
        self._next_id = 0  # the id of the next topic that is new
        self._new: deque[bytes] = deque()  # the names of topics that were created, and not offered yet
        self._offers: Iterator[tuple[ReceiveAny, bytes]] | None = None

    def receive(
        self, choice: TopicChoice, options: ReceiveOptions, reach: Reach, answer: _Answer, fail: _Fail
    ) -> "ReceiveAny":
        """Request messages of the topics of `choice`; `answer` or `fail` is called once, maybe immediately.

        Named topics need not exist. Of the topics that fit a pattern, those that `reach` leaves out are ignored, and so
        are those that cannot be read as `options` say, for example because the group has members.

        Raises, as `Leases.receive` for a named topic:
          LimitReachedError: too many topics fit, or too many requests wait with patterns.
          MemoryLimitError: the client uses all the memory it may.
        """
        self._memory.check()
        fitting = reach(choice.among(self._topics.existing())) if choice.beginnings else ()
        names = list(dict.fromkeys((*choice.names, *fitting)))
        if len(fitting) > MAX_TOPICS:
            raise LimitReachedError(f"{len(fitting)} topics fit the patterns; at most {MAX_TOPICS} can be waited for")
        if choice.beginnings and len(self._waiting) >= MAX_WAITING_BY_PATTERN:
            raise LimitReachedError(f"as many requests wait with patterns as may, {MAX_WAITING_BY_PATTERN}")
        self._chance.shuffle(names)
        receiving = ReceiveAny(self._leases, choice, options, answer, fail)
        if choice.beginnings:
            self._waiting[receiving] = None
            receiving.when_over(partial(self._waiting.pop, receiving, None), reach)
        receiving.start(names)
        return receiving

    def restored(self, content: StoreContent) -> None:
        """Note that the topics in the store are not new."""
        self._next_id = content.next_topic_id

    def changed(self, topic: Topic) -> None:
        """Add a new topic to the requests whose patterns it fits, in the next iterations of the event loop."""
        if topic.id is None or topic.id < self._next_id:
            return
        self._next_id = topic.id + 1
        if self._waiting:
            self._new.append(topic.name)
            if self._offers is None:
                self._offers = self._next_offers()
                asyncio.get_running_loop().call_soon(self._offer_some)

    def _next_offers(self) -> "Iterator[tuple[ReceiveAny, bytes]]":
        while self._new:
            name = self._new.popleft()
            for receiving in list(self._waiting):
                yield receiving, name

    def _offer_some(self) -> None:
        """Offer new topics to some requests; the next iteration goes on."""
        room = OFFERS_IN_TURN
        for receiving, name in self._offers or ():
            room -= OFFERS_IN_TURN // JOINS_IN_TURN if receiving.accept(name) else 1
            if room <= 0:
                asyncio.get_running_loop().call_soon(self._offer_some)
                return
        self._offers = None


class ReceiveAny:
    """One request; `give_up`, `wait_no_longer` and `take_back` are those of a `ReceiveRequest`."""

    def __init__(
        self, leases: Leases, choice: TopicChoice, options: ReceiveOptions, answer: _Answer, fail: _Fail
    ) -> None:
        loop = asyncio.get_running_loop()
        self._leases = leases
        self._choice = choice
        self._options = options
        self._answer = answer
        self._fail = fail
        self._room = options.max_count
        self._ends_at = loop.time() + options.wait_seconds
        self._timer: asyncio.TimerHandle | None = None  # runs while topics may be created
        self._parts: dict[bytes, ReceiveRequest | None] = {}  # the parts that wait; None while one begins
        self._answered: list[ReceiveRequest] = []
        self._received: ReceivedAny = []
        self._error: MiniqueueError | None = None
        self._joining: deque[bytes] = deque()  # the topics whose parts have not begun
        self._is_joining = self._is_over = False
        self._account = account_of(CURRENT_ACTOR.get())
        self._charged_bytes = 0
        self._context: Context | None = copy_context()
        self._reach: Reach = list
        self._over: Callable[[], object] = _nothing
        if choice.beginnings and options.wait_seconds:
            self._timer = loop.call_later(options.wait_seconds, self._stop_looking)

    def when_over(self, over: Callable[[], object], reach: Reach) -> None:
        """Call `over` when the request is answered; until then, topics in `reach` may be added."""
        self._over, self._reach = over, reach

    def start(self, names: list[bytes]) -> None:
        """Request messages of these topics, in this order."""
        self._joining.extend(names)
        self._join()

    def accept(self, name: bytes) -> bool:
        """Request messages of a topic that was just created, as the client of this request, if its name fits."""
        is_known = self._is_over or self._timer is None or name in self._parts or len(self._parts) >= 2 * MAX_TOPICS
        if is_known or not self._choice.fits(name) or name not in self._reach([name]):
            return False
        self._joining.append(name)
        if not self._is_joining and self._context is not None:
            self._context.run(self._join)
        return True

    def _join(self) -> None:
        """Begin some parts; the next iteration begins more."""
        self._is_joining = True
        for _ in range(min(len(self._joining), PARTS_IN_TURN)):
            if self._room > 0 and not self._is_over:
                self._begin(self._joining.popleft())
        if self._joining and self._room > 0 and not self._is_over:
            asyncio.get_running_loop().call_soon(self._join)
            return
        self._joining.clear()
        self._is_joining = False
        self._finish_if_done()

    def _begin(self, name: bytes) -> None:
        if name in self._parts:
            return
        wait_seconds = max(0.0, self._ends_at - asyncio.get_running_loop().time())
        options = self._options._replace(max_count=self._room, wait_seconds=wait_seconds)
        self._parts[name] = None
        try:
            part = self._leases.receive(
                name, options, partial(self._take, name), partial(self._note, name), kind=ReceivePart
            )
        except MiniqueueError as error:
            self._note(name, error)
            return
        if name in self._parts:
            self._parts[name] = part
            self._charge(PART_BYTES)
        else:  # it was answered before `receive` returned
            self._answered.append(part)

    def _take(self, name: bytes, result: ReceiveResult) -> None:
        """Accept the answer of a part."""
        part = self._parts.pop(name, None)
        if part is not None:
            self._answered.append(part)
        if result.leases:
            self._received.append((name, result))
            self._room -= sum(lease.count for _, lease in result.leases)
        self._finish_if_done()

    def _note(self, name: bytes, error: MiniqueueError) -> None:
        """Accept the error of a part; a topic that was not named is left out."""
        self._parts.pop(name, None)
        if name in self._choice.names:
            self._error = self._error or error
        self._finish_if_done()

    def _finish_if_done(self) -> None:
        is_waiting = self._parts or self._timer is not None
        if not (self._is_over or self._is_joining) and (self._received or self._error is not None or not is_waiting):
            self._finish()

    def _finish(self) -> None:
        """Withdraw the parts that wait, and answer."""
        self._is_over = True
        for part in list(self._parts.values()):
            if part is not None:
                part.give_up()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._charge(-self._charged_bytes)
        self._over()
        answer, fail, received, error = self._answer, self._fail, self._received, self._error
        self._answer = self._fail = self._over = _nothing  # they refer to the client, as the context does
        self._reach, self._context, self._error = list, None, None
        if received or error is None:
            answer(received)
        else:
            fail(error)

    def _stop_looking(self) -> None:
        """Wait for no more topics: the waiting time has elapsed."""
        self._timer = None
        self._finish_if_done()

    def _charge(self, size_bytes: int) -> None:
        self._charged_bytes += size_bytes
        if self._account is not None and size_bytes:
            self._account.add(Purpose.REQUESTS, size_bytes)

    def give_up(self) -> None:
        """Stop waiting, and answer without messages; if the request has been answered, this does nothing."""
        if not self._is_over:
            self._finish()

    def wait_no_longer(self) -> None:
        """End the waiting time: answer with the messages available, after those that are being loaded."""
        was_joining, self._is_joining = self._is_joining, True
        self._ends_at = asyncio.get_running_loop().time()
        for part in list(self._parts.values()):
            if part is not None:
                part.wait_no_longer()
        self._is_joining = was_joining
        if self._timer is not None:
            self._timer.cancel()
            self._stop_looking()
        else:
            self._finish_if_done()

    def take_back(self) -> None:
        """Return the delivered messages to their topics: the client left before the answer."""
        self.give_up()
        for part in self._answered:
            part.take_back()


def _nothing(*_: object) -> None:
    """Do nothing: the request has been answered."""
