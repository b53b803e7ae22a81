"""In the end a player takes all there is, also what moves just then."""

from pathlib import Path

from tests.durability.clients.player import Player
from tests.durability.clients.publishers import Ports
from tests.durability.clients.recorder import Recorder
from tests.durability.clients.resp import Resp
from tests.model.grounds import Ground
from tests.model.rules.facts import Wishes

PORTS = Ports(0, 0, 0, Path())


class MovingBroker:
    """Has one message, which becomes a dead letter: until the next commit it is in neither topic."""

    def __init__(self, topic: bytes) -> None:
        self._marks = [b"id", b"0-0", b"deliveries", 1, b"published_at_ms", 1]
        self._origin = [b"topic", topic, b"reason", b"expired"]
        self._is_committed = False
        self._is_taken = False

    async def ask(self, *words: bytes) -> object:
        match words:
            case (b"PUB", *_):
                self._is_committed = True
            case (b"RECEIVE", place, *_):
                return self._receive(place)
            case (b"LEN", place):
                return int(self._is_there(place))
        return b"OK"

    def _is_there(self, place: bytes) -> bool:
        return place.endswith(b".dlq") and self._is_committed and not self._is_taken

    def _receive(self, place: bytes) -> list[list[object]]:
        if not self._is_there(place):
            return []
        self._is_taken = True
        return [[b"1", b"x", [*self._marks, b"origin", self._origin]]]

    def close(self) -> None:
        pass


async def test_finish_also_takes_a_message_that_becomes_a_dead_letter_meanwhile(tmp_path, monkeypatch):
    recorder = Recorder(tmp_path / "history.jsonl")
    player = Player(1, [Ground(b"t")])
    (ground,) = player.grounds
    broker = MovingBroker(ground.name)

    async def connect(port: int) -> MovingBroker:
        return broker

    monkeypatch.setattr(Resp, "connect", connect)
    await player.prepare(PORTS, recorder)
    op = player.ledger.publish(ground.name, [b"x"], Wishes())
    player.ledger.published(op, [b"0-0"])
    op.messages[0].may_move = True
    await player.finish(PORTS, recorder)
    recorder.close()
    assert recorder.checker.report.counts["broken"] == 0, recorder.checker.report
