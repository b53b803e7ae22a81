import asyncio
import base64

import orjson
import pytest

from miniqueue.broker.commit.journal import Published
from miniqueue.broker.model.limits import Limit
from miniqueue.server.http.publish import TURN_BYTES, PublishedLines
from tests.fakes import FakeConsumer
from tests.serving import NDJSON, Lines, eventually, serving

NOT_JSON = {"error": "the line is not JSON", "code": "BADLINE"}
TOO_LARGE = {"error": "message of 11 bytes is over the limit of 10 (-max-message-size)", "code": "TOOBIG"}
BODY = b'"a"\nbad\n{"msg":"/w=="}\n\n"\xc3\xa4"\r\n"' + b"x" * 11 + b'"\n""\n7\n"last"'
PAYLOADS = [b"a", b"\xff", "ä".encode(), b"", b"last"]


def replies(body: bytes) -> list[dict[str, str]]:
    return [orjson.loads(line) for line in body.splitlines()]


@pytest.mark.parametrize("part_bytes", [1, 2, 7, len(BODY)])
async def test_every_line_is_answered_in_order_however_the_body_is_split(certificates, part_bytes):
    async with serving(certificates, max_message_bytes=10) as served:
        stream = await served.begin("/publish/t", NDJSON)
        for start in range(0, len(BODY), part_bytes):
            stream.write(BODY[start : start + part_bytes])
            await asyncio.sleep(0)
        stream.write(b"", is_last=True)
        answers = replies(await stream.read_all())
        assert answers[:4] == [{"id": "0-0"}, NOT_JSON, {"id": "0-1"}, {"id": "0-2"}]
        assert answers[4:6] == [TOO_LARGE, {"id": "0-3"}]
        assert answers[6]["error"].startswith("a line is a JSON string")
        assert answers[7:] == [{"id": "0-4"}]
        assert FakeConsumer(served.broker, b"t").drain() == PAYLOADS


async def test_only_the_line_of_a_run_that_is_too_large_is_refused(certificates):
    async with serving(certificates, max_message_bytes=10) as served:
        served.broker.max_message_bytes = 100  # the limit of lines; that of the publisher is still 10
        body = b'"a"\n"b"\n"' + b"x" * 11 + b'"\n"c"\n'
        _, answers = await served.request("POST", "/publish/t", body, NDJSON)
        assert replies(answers) == [{"id": "0-0"}, {"id": "0-1"}, TOO_LARGE, {"id": "0-2"}]
        assert served.broker.limit_counts.counts[Limit.MESSAGE_SIZE] == 1


async def test_only_the_lines_that_do_not_fit_the_schema_are_refused(certificates):
    async with serving(certificates) as served:
        await served.broker.admin.create(b"t", {"schema": {"type": "number"}}).wait()
        body = b'"1"\n"x"\n"2"\n{"msg":"eA==","key":"k"}\n{"msg":"Mw==","key":"k"}\n'
        status, answers = await served.request("POST", "/publish/t", body, NDJSON)
        refusal = {"error": "/: not JSON", "code": "SCHEMA"}
        assert replies(answers) == [{"id": "0-0"}, refusal, {"id": "0-1"}, refusal, {"id": "0-2"}]
        assert status == 200
        status, answer = await served.request("POST", "/publish/t?dedup=id", body, NDJSON)
        assert (status, orjson.loads(answer)["error"]) == (422, "message 2 of 5: /: not JSON")
        assert FakeConsumer(served.broker, b"t").drain() == [b"1", b"2", b"3"]


async def test_a_large_read_is_published_in_several_iterations(world):
    loop = asyncio.get_running_loop()
    begun, published = [0], dict[int, int]()
    publish = world.broker.publish

    def count() -> None:
        begun[0] += 1
        loop.call_soon(count)

    def publishing(name: bytes, payloads: list[bytes]) -> Published:
        published[begun[0]] = published.get(begun[0], 0) + sum(map(len, payloads))
        return publish(name, payloads)

    world.broker.publish = publishing
    bodies, sent = [b'"%015d"\n' % number for number in range(20_000)], list[bytes]()

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"".join(bodies)}

    async def send(message: dict[str, object]) -> None:
        sent.append(message.get("body", b""))

    loop.call_soon(count)
    await PublishedLines(world.broker, b"t").run(receive, send)
    assert sum(published.values()) == 15 * len(bodies)
    assert max(published.values()) <= TURN_BYTES
    assert replies(b"".join(sent)) == [{"id": f"0-{number}"} for number in range(len(bodies))]


@pytest.mark.parametrize(
    ("content_type", "is_lines"),
    [
        (b"application/x-ndjson", True),
        (b"Application/X-NDJSON; charset=utf-8", True),
        (b"application/json", False),
        (b"text/plain; application/x-ndjson", False),
    ],
)
async def test_content_type_decides(certificates, content_type, is_lines):
    async with serving(certificates) as served:
        status, _ = await served.request("POST", "/publish/t", b'"a"\n"b"\n', (b"content-type", content_type))
        assert status == (200 if is_lines else 201)
        assert FakeConsumer(served.broker, b"t").drain() == ([b"a", b"b"] if is_lines else [b'"a"\n"b"\n'])


async def test_answers_come_while_the_request_goes_on(certificates):
    async with serving(certificates) as served:
        stream = await served.begin("/publish/t", NDJSON)
        assert await stream.response() == 200
        lines = Lines(stream)
        for number in range(3):
            stream.write(b'"x"\n')
            assert await lines.hear() == {"id": f"0-{number}"}
        stream.write(b"", is_last=True)
        assert await lines.hear() is None


async def test_answer_waits_for_the_commit(certificates):
    async with serving(certificates) as served:
        served.store.may_write.clear()
        stream = await served.begin("/publish/t", NDJSON)
        stream.write(b'"x"\n')
        answer = asyncio.create_task(Lines(stream).hear())
        await eventually(lambda: served.store.write_count == 1)
        assert not answer.done()
        served.store.may_write.set()
        assert await answer == {"id": "0-0"}


async def test_failed_commit_is_one_error_a_message(certificates):
    async with serving(certificates) as served:
        served.store.fail_writes = {1}
        _, body = await served.request("POST", "/publish/t", b'"a"\n"b"\nbad\n', NDJSON)
        first, second, third = replies(body)
        assert first == second
        assert "may or may not have been kept" in first["error"]
        assert third == NOT_JSON


async def test_lines_are_refused_one_by_one_once_the_broker_stops(certificates):
    async with serving(certificates) as served:
        stream = await served.begin("/publish/t", NDJSON)
        assert await stream.response() == 200
        await served.broker.stop()
        stream.write(b'"a"\n"b"\n', is_last=True)
        refusal = {"error": "The broker is shutting down", "code": "DRAINING"}
        assert await Lines(stream).hear_all() == [refusal, refusal]


async def test_invalid_topic_is_refused_as_a_whole(certificates):
    async with serving(certificates) as served:
        status, body = await served.request("POST", "/publish/a%20b", b'"x"\n', NDJSON)
        assert status == 400
        assert b"topic name" in body


async def test_client_that_leaves_loses_only_the_line_it_had_not_ended(certificates):
    async with serving(certificates) as served:
        stream = await served.begin("/publish/t", NDJSON)
        stream.write(b'"a"\n"b"\n"c"')
        assert await Lines(stream).hear() == {"id": "0-0"}
        stream.close()
        await served.stop()
        assert FakeConsumer(served.broker, b"t").drain() == [b"a", b"b"]


async def test_much_is_published_by_a_client_that_reads_only_at_the_end(certificates):
    """No deadlock: the server continues to read while the client does not read its answers."""
    async with serving(certificates) as served:
        line = b'"%b"\n' % base64.b64encode(b"x" * 3000)
        stream = await served.begin("/publish/t", NDJSON)
        stream.write(line * 2000, is_last=True)
        answers = replies(await stream.read_all())
        assert [answer["id"] for answer in answers] == [f"0-{number}" for number in range(2000)]


async def test_drain_answers_what_was_published_and_ends_the_stream(certificates):
    async with serving(certificates) as served:
        served.store.may_write.clear()
        stream = await served.begin("/publish/t", NDJSON)
        stream.write(b'"a"\n"b"\n')
        await eventually(lambda: served.store.write_count == 1)
        served.app.drain()
        served.store.may_write.set()
        assert await Lines(stream).hear_all() == [{"id": "0-0"}, {"id": "0-1"}]
        assert (await served.request("POST", "/publish/t", b'"c"\n', NDJSON))[0] == 503


async def test_drain_answers_all_even_of_a_client_that_does_not_read(certificates):
    async with serving(certificates) as served:
        stream = await served.begin("/publish/t", NDJSON)
        stream.write(b'"x"\n' * 500_000)
        await eventually(lambda: len(stream._chunks) > 3)
        served.app.drain()
        answers = replies(await stream.read_all())
        assert len(answers) == served.broker.stats()[b"t"].published < 500_000
