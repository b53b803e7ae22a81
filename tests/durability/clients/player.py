"""Clients that use topics in every way until the broker is gone, and know what must be there afterwards.

    prepare ─▶ run: one act after the other, on one connection ─▶ crash ─▶ prepare ─▶ …
    finish: everything is taken; what must be there has come, and nothing is left

Their acts and rules are those of the model check (`tests.model.acts.acts`, `tests.model.rules.ledger`). Each
player has topics of its own, and one connection: so it knows the order of all that happens there. Seconds are shorter
here.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from itertools import count
from random import Random

from tests.durability.clients.publishers import Ports
from tests.durability.clients.recorder import Recorder
from tests.durability.clients.resp import Resp
from tests.model.acts.acting import Act
from tests.model.acts.acts import Acts
from tests.model.acts.consuming import SCHEDULED
from tests.model.grounds import GROUNDS, Ground
from tests.model.rules.facts import DEFAULT
from tests.model.rules.ledger import Ledger

PLAYERS = 5
#: The duration of a second of the model, in seconds.
PACE = 0.05
EVERY_SECONDS = 1
#: Maximum time until all delayed messages have come, and the pause between two looks.
PATIENCE_SECONDS, LOOK_SECONDS = 60.0, 0.05


def make_players(seed: int, shards: int = 1) -> "list[Player]":
    """Make players, and distribute all topics among them; with shards, those of a player are in one shard."""
    tags = [b"" if shards == 1 else b"{%d}" % n for n in range(PLAYERS)]
    return [Player(seed + n, GROUNDS[n::PLAYERS], tags[n]) for n in range(PLAYERS)]


class Player:
    """One client, from crash to crash.

    Args:
      seed: the seed of its choices.
      grounds: its topics; they have other names in each life.
      tag: the beginning of their names.
    """

    def __init__(self, seed: int, grounds: Sequence[Ground], tag: bytes = b"") -> None:
        self._tag = tag
        self._random = Random(seed)
        self._grounds = grounds
        self._lives = count(1)
        self._payloads = count(1)
        self._seed = seed
        self._is_broken = False
        self._begin_life()

    def _begin_life(self) -> None:
        self._is_prepared = False
        life = next(self._lives)
        self.grounds = [_renamed(ground, self._tag, b"-%d" % life) for ground in self._grounds]
        rules = {ground.name: ground.rules for ground in self.grounds}
        groups = {ground.name: ground.sure_groups for ground in self.grounds}
        self.ledger = Ledger(rules, lambda: time.time_ns() // 1_000_000, time.monotonic, groups)
        self.ledger.pause_ms = round(self.ledger.pause_ms * PACE)
        self._acts = Acts(self.ledger, self._random, self.grounds, self._next_payload, PACE)

    def _next_payload(self) -> bytes:
        return b"%d-%d" % (self._seed, next(self._payloads))

    # --- crashes ----------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """The broker was killed."""
        self.ledger.crash()

    def stop(self) -> None:
        """It has stopped in good order."""
        self.ledger.stop()

    # --- at work ----------------------------------------------------------------------------------------------

    async def prepare(self, ports: Ports, recorder: Recorder) -> None:
        """Create the topics; raises ConnectionError."""
        if self._is_prepared or self._is_broken:
            return
        connection = await Resp.connect(ports.resp)
        try:
            for ground in self.grounds:
                await self._make(connection, ground)
        finally:
            connection.close()
        self._is_prepared = True

    async def _make(self, connection: Resp, ground: Ground) -> None:
        """Make one topic with what it needs; some of that may be there already."""
        if ground.settings:
            await _ask(connection, b"TOPIC", b"CREATE", ground.name, *ground.settings, or_else="EXISTS")
        for group in ground.sure_groups[1:]:
            await _ask(connection, b"GROUP", b"CREATE", ground.name, group, or_else="GROUPEXISTS")
        if ground.every_seconds:
            found = await _ask(connection, b"SCHEDULE", b"GET", ground.name, or_else="NOSCHEDULE")
            if not isinstance(found, list):
                rule = [b"EVERY", b"%d" % EVERY_SECONDS]
                await _ask(connection, b"SCHEDULE", b"SET", ground.name, *rule, ground.name, SCHEDULED)

    async def run(self, ports: Ports, recorder: Recorder, topics: list[str], random: Random) -> None:
        """Act until the broker is gone; in the form of any client."""
        connection = await Resp.connect(ports.resp)
        try:
            while not self._is_broken:
                await self._act(connection, recorder)
            await connection.hear()  # the ledger cannot say any more what must come
        finally:
            connection.close()

    async def _act(self, connection: Resp, recorder: Recorder) -> None:
        try:
            await self._carry_out(connection, self._acts.next())
            recorder.checker.report.counts["acts"] += 1
        except AssertionError as fault:
            self._report(recorder, str(fault))

    async def _carry_out(self, connection: Resp, act: Act) -> None:
        with suppress(StopIteration):
            words = next(act)
            while True:
                words = act.send(await self._reply(connection, act, words))

    async def _reply(self, connection: Resp, act: Act, words: list[bytes]) -> object:
        try:
            return await connection.ask(*words)
        except ConnectionError:
            with suppress(StopIteration):
                act.send(None)  # it will never come
            raise

    def _report(self, recorder: Recorder, fault: str) -> None:
        self._is_broken = True
        recorder.checker.report.add("broken", fault)

    # --- the end ----------------------------------------------------------------------------------------------

    async def end_life(self, ports: Ports, recorder: Recorder) -> None:
        """Finish, and start again with other topics."""
        await self.finish(ports, recorder)
        connection, grounds = await Resp.connect(ports.resp), self.grounds
        self._begin_life()  # if the broker dies while it deletes topics, no player uses them any more
        try:
            for ground in grounds:
                for place in ground.places:
                    await _ask(connection, b"TOPIC", b"DELETE", place)
        finally:
            connection.close()

    async def finish(self, ports: Ports, recorder: Recorder) -> None:
        """Take everything, and report what does not come, or is left; raises ConnectionError."""
        if self._is_broken or not self._is_prepared:
            return
        connection = await Resp.connect(ports.resp)
        try:
            for ground in self.grounds:
                if ground.has_sums:
                    await self._carry_out(connection, self._acts.figures(ground))
            await self._take_everything(connection)
            lost = [str(share.message) for share in self.ledger.lost()]
            missed = [self.ledger.missed_ticks(g.name, 1000 * EVERY_SECONDS) for g in self.grounds if g.every_seconds]
            assert not lost, f"lost: {lost}"
            assert not any(missed), f"ticks without a message: {missed}"
        except AssertionError as fault:
            self._report(recorder, str(fault))
        finally:
            connection.close()

    async def _take_everything(self, connection: Resp) -> None:
        for ground in self.grounds:
            if ground.every_seconds:
                await _ask(connection, b"SCHEDULE", b"DELETE", ground.name, or_else="NOSCHEDULE")
        deadline = time.monotonic() + PATIENCE_SECONDS
        empty_looks = 0
        while empty_looks < 2:
            left = {ground.name: await self._take(connection, ground) for ground in self.grounds}
            assert time.monotonic() < deadline, f"what is left does not come: {left}"
            if any(left.values()):
                empty_looks = 0
                await asyncio.sleep(LOOK_SECONDS)
            else:
                empty_looks += 1
                await self._wait_for_commit(connection)

    async def _wait_for_commit(self, connection: Resp) -> None:
        """Wait until what the broker was moving is where it belongs.

        A message that becomes a dead letter is in neither topic until the commit in which it moves is durable.
        """
        scratch = b"scratch-%d" % self._seed
        await _ask(connection, b"PUB", scratch, b"x")
        await _ask(connection, b"TOPIC", b"DELETE", scratch)

    async def _take(self, connection: Resp, ground: Ground) -> int:
        """Take what is ready in one topic; return how much there is in it then."""
        for place in ground.places:
            for group in ground.groups:
                words = [b"RECEIVE", place, b"COUNT", b"100", b"AUTOACK"]
                op = self.ledger.ask("receive and end")
                reply = await connection.ask(*words, *([b"GROUP", group] if group != DEFAULT else []))
                self._acts.received(op, place, group, reply, None)
        return sum([int(str(await _ask(connection, b"LEN", place))) for place in ground.places])


def _renamed(ground: Ground, tag: bytes, suffix: bytes) -> Ground:
    """Return a topic under another name; what it keeps for a time is kept for shorter seconds."""
    rules, settings = copy(ground.rules), list(ground.settings)
    if rules.keeps_ms:
        rules.keeps_ms = round(rules.keeps_ms * PACE)
        settings[settings.index(b"retention_seconds") + 1] = b"%g" % (rules.keeps_ms / 1000)
    return replace(ground, name=tag + ground.name + suffix, rules=rules, settings=settings)


async def _ask(connection: Resp, *words: bytes, or_else: str = "") -> object:
    """Ask for something that is done, unless it is refused with the word `or_else`."""
    reply = await connection.ask(*words)
    is_done = not isinstance(reply, Exception) or (or_else and str(reply).startswith(or_else))
    assert is_done, f"{words[:3]}: {reply}"
    return reply
