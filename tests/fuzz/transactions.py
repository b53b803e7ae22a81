"""Bodies of `POST /transactions`: all acts of one are done, or none, and the answer says which.

    {"publish":"t","text":"one"} LF {"ack":"t","receipts":["RECEIPT1"]}

RECEIPT1 to RECEIPT3 stand for the receipts of messages that are leased; other texts are none.

Documented: nothing leaves the application; the statuses are those of docs/protocol.md; there is a line for each act,
or one error, which has the number of an act if it is that of an act.
"""

import asyncio
from operator import attrgetter
from random import Random

import orjson
from structlog.testing import capture_logs

from miniqueue.broker import Broker
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.storage.memory import MemoryStore
from tests.fakes import ManualClock, broker_on
from tests.fuzz.engine import Target, chance_of
from tests.fuzz.http_requests import ask
from tests.fuzz.pieces import cut, some, text

STATUSES = {200, 400, 404, 409, 413, 422, 507}
LEASED_COUNT = 3
MAX_MESSAGE_BYTES = 40
MAX_TRANSACTION_BYTES = 2000
_PUBLISHES = (
    b'{"publish":"t","text":"one"}',
    b'{"publish":"u","msg":"dHdv"}',
    b'{"publish":"t","msg":""}',
    b'{"publish":"t","text":"x","key":"k","headers":{"a":"b"}}',
    b'{"publish":"t","text":"x","dedup":"1"}',
    b'{"publish":"u","text":"x","unique":"1"}',
    b'{"publish":"t","text":"x","delay":5}',
    b'{"publish":"t","text":"x","ttl":0.5,"priority":"high"}',
    b'{"publish":"t","batch":["a",{"text":"b","key":"k"}],"dedup":"2"}',
    b'{"publish":"a b","text":"x"}',
    b'{"publish":"t","text":"x","msg":"eA=="}',
    b'{"publish":"t"}',
)
_SETTLES = (
    b'{"ack":"t","receipts":["RECEIPT1"]}',
    b'{"ack":"t","receipts":["RECEIPT1","RECEIPT2"]}',
    b'{"nack":"t","receipts":["RECEIPT2"]}',
    b'{"nack":"t","receipts":["RECEIPT3"],"delaySeconds":1,"reason":"no"}',
    b'{"back":"t","receipts":["RECEIPT3"]}',
    b'{"dack":"t","receipts":["RECEIPT3"],"delaySeconds":1}',
    b'{"extend":"t","receipts":["RECEIPT1"],"leaseSeconds":9}',
    b'{"ack":"t","receipts":["RECEIPT4"]}',
    b'{"ack":"u","receipts":["RECEIPT1"]}',
    b'{"ack":"t","receipts":[]}',
)
_OTHERS = (b"", b" ", b"{}", b"[]", b"null", b'"ACK"', b'{"ack":"t","publish":"t"}', b"{", b'{"publish":1}')
_TOKENS = (
    *(b'"publish":', b'"ack":', b'"receipts":', b'"RECEIPT1"', b'"RECEIPT2"', b'"text":', b'"msg":', b'"delay":'),
    *(b'"dedup":"1"', b'"unique":"1"', b"1e999", b"-1", b"\\ud800", b"\\u0000", b"[", b"{", b"}", b",", b"\n"),
)


def _make(chance: Random) -> bytes:
    lines = some(chance, (*_PUBLISHES, *_SETTLES), 5)
    if chance.random() < 1 / 4:
        lines.append(chance.choice(_OTHERS))
    if chance.random() < 1 / 8:
        lines.append(orjson.dumps({"publish": "t", "text": text(chance) * chance.choice((1, 20))}))
    chance.shuffle(lines)
    return chance.choice((b"\n", b"\n", b"\n\n", b"\r\n")).join(lines)


def _check(body: bytes) -> None:
    with capture_logs():
        asyncio.run(_serve(body))


async def _serve(body: bytes) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    limits = BrokerLimits(max_transaction_bytes=MAX_TRANSACTION_BYTES)
    broker = broker_on(MemoryStore(), ManualClock(), limits=limits, max_message_bytes=MAX_MESSAGE_BYTES)
    await broker.start()
    await broker.publish(b"t", [b"1", b"2", b"3", b"4"]).commit.wait()
    for number, receipt in enumerate(_leased(broker), 1):
        body = body.replace(b"RECEIPT%d" % number, receipt)
    before = _stock(broker)
    status, answer = await _post(broker, cut(chance_of(body), body))
    if status == 200:
        _check_done(before, _stock(broker), body, answer)
    else:
        assert _stock(broker) == before, answer
        error = orjson.loads(answer)
        assert error["error"].isprintable(), error
        assert 1 <= error.get("act", 1) <= len(_lines(body)), error
    await broker.stop()
    assert not faults, faults


def _leased(broker: Broker) -> list[bytes]:
    """Lease some messages; return their receipts."""
    receipts: list[bytes] = []

    def answer(result) -> None:
        receipts.extend(
            b"%b%d" % (result.prefix, number)
            for _, lease in result.leases
            for number in range(lease.receipt, lease.receipt + lease.count)
        )

    broker.leases.receive(b"t", ReceiveOptions(LEASED_COUNT), answer, lambda error: None)
    assert len(receipts) == LEASED_COUNT
    return receipts


async def _post(broker: Broker, pieces: list[bytes]) -> tuple[int, bytes]:
    scope = {
        **{"type": "http", "method": "POST", "path": "/transactions", "raw_path": b"/transactions"},
        **{"query_string": b"", "headers": [], "client": ("127.0.0.1", 1)},
    }
    start, *bodies = await ask(broker, scope, pieces)
    assert start["status"] in STATUSES, (start, bodies)
    return start["status"], b"".join(message["body"] for message in bodies)


def _lines(body: bytes) -> list[bytes]:
    return [line for line in body.split(b"\n") if line.strip()]


def _stock(broker: Broker) -> dict[bytes, tuple[int, ...]]:
    """Return what there is in each topic, and what has become of the rest."""
    figures = attrgetter("ready", "leased", "delayed", "acknowledged", "dropped", "moved")
    return {name: figures(topic) for name, topic in broker.stats().items()}


def _check_done(before: dict, after: dict, body: bytes, answer: bytes) -> None:
    """There is an answer to each act, and as much more as was published; a dead letter is counted in two topics."""
    acts, answers = [orjson.loads(line) for line in _lines(body)], [orjson.loads(line) for line in answer.splitlines()]
    assert len(acts) == len(answers)
    publish_count = reject_count = 0
    for act, answered in zip(acts, answers, strict=True):
        if "publish" in act:
            ids = answered["ids"] if "batch" in act else [answered["id"]]
            assert all(ids)
            publish_count += 0 if "duplicate" in answered else len(ids)
        else:
            assert answered == ["OK"] * len(act["receipts"])
            reject_count += len(act["receipts"]) if "reject" in act else 0
    more = sum(map(sum, after.values())) - sum(map(sum, before.values()))
    assert publish_count <= more <= publish_count + reject_count, (before, after)


TARGET = Target("transactions", _make, _check, tokens=_TOKENS, quick_inputs=100)
