"""Walks at random through all that clients of RESP can do, while timers expire, the store fails, and the process dies.

    step ─▶ a client that waits for nothing acts │ the clock goes on │ the store is held up, fails │ crash │ restart
         └▶ everything runs that can ─▶ what came is judged (`ledger`)
    end  ─▶ restart ─▶ everything is taken ─▶ what must be there has come ─▶ nothing is left

A seed says all of it, so a walk that finds something can be made again.
"""

import traceback
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

from miniqueue.broker.commit.journal import LARGE_BYTES
from miniqueue.server.resp.server import RespServer
from miniqueue.tools.audit.store import Audit
from tests.model.acts.acting import Act
from tests.model.acts.acts import Acts
from tests.model.acts.consuming import SCHEDULED
from tests.model.clients import Client, StampedWire
from tests.model.drivers import Driver
from tests.model.grounds import ALL_GROUNDS, Ground
from tests.model.machine import LONG_SECONDS
from tests.model.rules.ledger import Ledger
from tests.model.rules.limits import small_limits
from tests.model.stores import MemoryDisk

CLIENT_COUNT = 4
STEPS = 150
#: How often messages are counted, if nothing is under way.
COUNTED = 0.1
#: Of its last acts, when something was found.
TOLD_ACTS = 60
TROUBLES = ("fail", "crash", "crash", "restart", "evict", "hold", "hold")


class WalkDriver(Driver):
    """A broker with a RESP listener."""

    async def _start(self) -> None:
        await super()._start()
        self.resp = RespServer(self.broker, {})


class Walk:
    """One walk.

    Args:
      seed: the seed of all choices.
      grounds: the topics among which two or three are chosen.
    """

    def __init__(self, seed: int, grounds: Sequence[Ground] = ALL_GROUNDS) -> None:
        self.random = Random(seed)
        self.grounds = self.random.sample(grounds, min(len(grounds), self.random.choice((1, 2, 3))))
        self.told: deque[str] = deque(maxlen=TOLD_ACTS)
        self.disk = MemoryDisk()
        self.driver = WalkDriver(
            self.disk,
            began=lambda: None,
            ended=lambda: None,
            failed=lambda is_kept: self._failed(),
            opened=lambda: None,
        )
        if seed % 2:
            self.driver.large_bytes = LARGE_BYTES
        self.driver.loop.set_exception_handler(self._note_exception)
        clock, rules = self.driver.clock, {ground.name: ground.rules for ground in self.grounds}
        self.ledger = Ledger(rules, clock.now_ms, clock.monotonic, {g.name: g.sure_groups for g in self.grounds})
        self.acts = Acts(self.ledger, self.random, self.grounds, self._next_payload)
        self.clients: list[Client] = []
        self.found: Exception | None = None
        self.payload_count = 0

    def _note_exception(self, _loop: object, context: dict[str, Any]) -> None:
        self.found = context.get("exception") or RuntimeError(f"{context}")

    def _next_payload(self) -> bytes:
        self.payload_count += 1
        return b"m%d" % self.payload_count

    # --- the walk ---------------------------------------------------------------------------------------------

    def run(self, steps: int = STEPS) -> None:
        """Walk; raises AssertionError with the last acts when something must not be."""
        try:
            self._start()
            self._make_topics()
            for _ in range(steps):
                self._step()
            self._end()
        except Exception as exc:
            acts = "\n".join(self.told)
            raise AssertionError(f"{exc}\n{traceback.format_exc()}\n{acts}") from exc
        finally:
            self.driver.close()

    def _start(self) -> None:
        self.driver.start()
        self.clients = [self.driver.do(self._connect, f"{n}") for n in range(CLIENT_COUNT)]

    def _connect(self, name: str) -> Client:
        return Client(name, StampedWire(self.driver.resp), self.told)

    def _make_topics(self) -> None:
        for ground in self.grounds:
            if ground.settings:
                self._ask(b"TOPIC", b"CREATE", ground.name, *ground.settings)
            if ground.every_seconds:
                every = b"%d" % ground.every_seconds
                self._ask(b"SCHEDULE", b"SET", ground.name, b"EVERY", every, ground.name, SCHEDULED)
            for group in ground.sure_groups[1:]:
                self._ask(b"GROUP", b"CREATE", ground.name, group)

    def _ask(self, *words: bytes) -> object:
        """Ask one thing that must be answered now."""
        replies: list[object] = []

        def act() -> Act:
            replies.append((yield list(words)))

        client = self.clients[0]
        self.driver.do(client.begin, act())
        self._hear()
        if not replies:  # what is read from the store is waited for, a little at a time
            self.driver.loop.pass_time(LONG_SECONDS)
            self._hear()
        assert replies, f"{words} is not answered"
        assert not isinstance(replies[0], Exception), f"{words}: {replies[0]}"
        return replies[0]

    def _carry_out(self, act: Act) -> None:
        """Do something that must be done at once."""
        client = self.clients[0]
        self.driver.do(client.begin, act)
        self._hear()
        if client.act is not None:
            self.driver.loop.pass_time(LONG_SECONDS)
            self._hear()
        assert client.act is None, "it is not answered"

    def _hear(self) -> None:
        if self.found is not None:
            raise self.found
        self._hear_all()
        while self.found is None and (client := self._who_goes_on()):
            self.driver.do(client.go_on)
            self._hear_all()
        if self.found is not None:
            raise self.found

    def _who_goes_on(self) -> Client | None:
        return next((client for client in self.clients if client.words is not None), None)

    def _hear_all(self) -> None:
        """In the order in which it was said."""
        said = [(stamp, client, data) for client in self.clients for stamp, data in client.wire.take()]
        for _, client, data in sorted(said, key=lambda one: one[0]):
            client.hear(data)

    def _step(self) -> None:
        kind = self.random.choices(("act", "time", "settle", "trouble"), (12, 3, 1, 1))[0]
        if kind == "act":
            self._act()
        elif kind == "time":
            self._pass_time()
        elif kind == "settle":
            self.driver.loop.pass_time(0.005)
        else:
            self._trouble(self.random.choice(TROUBLES))
        self._hear()
        if self.random.random() < COUNTED:
            self._count()

    def _count(self) -> None:
        """Where all rests there are as many messages as there must and may be."""
        self.driver.loop.pass_time(0.01)  # dead letters are counted when they are committed
        self._hear()
        for ground in self.grounds:
            if self._is_at_rest and len(ground.groups) == 1 and not ground.every_seconds:
                count = sum(int(str(self._ask(b"LEN", place))) for place in ground.places)
                must, may = self.ledger.bounds(ground.name)
                assert must <= count <= may, f"{ground.name!r} has {count} messages, not {must} to {may}"
            if self._is_at_rest and ground.has_sums:
                self._carry_out(self.acts.figures(ground))

    @property
    def _is_at_rest(self) -> bool:
        store = self.driver.store
        is_held_up = not (store.may_write.is_set() and store.may_scan.is_set())
        is_busy = any(client.act and not client.is_stream for client in self.clients)
        return not is_held_up and not is_busy and self.driver.broker.refusal is None

    def _act(self) -> None:
        able = [client for client in self.clients if client.act is None or client.is_stream]
        if not any(client.act is None for client in able):
            return self._release()
        client = self.random.choice(able)
        if client.act is not None:
            self.driver.do(client.poke)
        else:
            self.driver.do(client.begin, self.acts.next(may_leave=client is not self.clients[0]))
        return self._let_in()

    def _let_in(self) -> None:
        """Who has lost a connection has another one."""
        for n, client in enumerate(self.clients):
            if client.wire.transport.is_closed:
                self.clients[n] = self.driver.do(self._connect, f"{n}")

    def _pass_time(self) -> None:
        seconds = self.random.choice((0.05, 0.5, 0.5, 1, 2, 5, 20))
        self.told.append(f"time: {seconds}")
        self.driver.clock.advance(seconds)
        self.driver.loop.pass_time(seconds)
        self._hear()
        if self.random.random() < 0.8:
            self.driver.do(self.driver.broker.tick)

    def _release(self) -> None:
        self.driver.do(self.driver.store.release)

    def _trouble(self, what: str) -> None:
        self.told.append(what)
        store = self.driver.store
        match what:
            case "fail":
                store.fails_next = self.random.choice(("kept", "dropped"))
                store.refused_openings = self.random.choice((0, 0, 1))
            case "crash":
                self._crash(is_kept=self.random.random() < 0.5)
            case "restart":
                self._restart()
            case "evict":
                self.driver.do(self.driver.evict)
            case "hold":
                is_held = not (store.may_write.is_set() and store.may_scan.is_set())
                if is_held:
                    self._release()
                else:
                    self.random.choice((store.may_write, store.may_scan)).clear()

    def _failed(self) -> None:
        """The store has failed: what came by now is judged by what was true by now."""
        try:
            self._hear_all()
        except AssertionError as exc:
            self.found = exc
        self.told.append("the store has failed")
        self.ledger.fault()
        self.driver.store.release()

    def _crash(self, *, is_kept: bool) -> None:
        self._hear()
        self.ledger.crash()
        self._lose_replies()
        self.driver.crash(is_kept=is_kept)
        self._audit()
        self._start()

    def _lose_replies(self) -> None:
        for client in self.clients:
            if client.act is not None:
                client.send(None)
        self.clients = []

    def _restart(self) -> None:
        self.driver.store.fails_next = None
        self._release()
        self._hear()
        self.driver.do(self.driver.broker.admin.rest)  # the server does it, too
        self.driver.do(self.driver.resp.answer_waiting)
        self._hear()
        self.driver.stop()
        self._hear()
        self.ledger.stop()
        self._lose_replies()
        self.driver.store.refused_openings = 0
        self._audit()
        self._start()

    def _audit(self) -> None:
        """What is stored is sound, as `miniqueue check` sees it."""
        audit = Audit()
        for key, value in sorted(self.disk.pairs().items()):
            audit.take(key, value)
        audit.finish()
        problems = [str(problem) for problem in audit.problems.kept]
        assert not problems, problems

    # --- the end ----------------------------------------------------------------------------------------------

    def _end(self) -> None:
        self._restart()
        self.driver.loop.pass_time(LONG_SECONDS)
        for ground in self.grounds:
            self._resume(ground)
            if ground.every_seconds:
                self._ask(b"SCHEDULE", b"DELETE", ground.name)
        idle_rounds = 0
        while idle_rounds < 3:  # what is held back by what is older comes a round later
            self.driver.clock.advance(60)
            self.driver.do(self.driver.broker.tick)
            self.driver.loop.pass_time(LONG_SECONDS)
            idle_rounds = 0 if self._take_what_there_is() else idle_rounds + 1
        for ground in self.grounds:
            assert not self.ledger.missed_ticks(ground.name, 1000 * ground.every_seconds or 1)
        assert not self.ledger.lost(), [str(share.message) for share in self.ledger.lost()]
        self._restart()
        for ground in self.grounds:
            for place in ground.places:
                assert self._ask(b"LEN", place) == 0, f"something is left in {place!r}"

    def _take_what_there_is(self) -> bool:
        """Return whether there was anything."""
        has_any = False
        for ground in self.grounds:
            for group in ground.groups:
                for place in ground.places:
                    while self._take_all(place, group):
                        has_any = True
        return has_any

    def _resume(self, ground: Ground) -> None:
        if "pause" in ground.acts and ground.name in self.driver.broker.topics():
            self._ask(b"RESUME", ground.name)

    def _take_all(self, topic: bytes, group: bytes) -> bool:
        op = self.ledger.ask("receive and end")
        words = [b"RECEIVE", topic, b"COUNT", b"100", b"AUTOACK", *([b"GROUP", group] if group != b"default" else [])]
        reply = self._ask(*words)
        self.acts.received(op, topic, group, reply, None)
        return bool(reply)


def walks(seeds: Sequence[int], grounds: Sequence[Ground] = ALL_GROUNDS) -> int:
    """Walk with each of the seeds; return how many messages were published. Raises AssertionError with the seed."""
    count = 0
    with small_limits():
        for seed in seeds:
            walk = Walk(seed, grounds)
            try:
                walk.run()
            except AssertionError as exc:
                raise AssertionError(f"seed {seed}: {exc}") from exc
            count += walk.payload_count
    return count
