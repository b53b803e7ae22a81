"""Traces by OpenTelemetry: the context travels in the headers of messages, and nothing is done without a tracer."""

import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, Tracer

from miniqueue_client import (
    AsyncClient,
    AsyncWorker,
    Client,
    ConnectError,
    Delay,
    Message,
    Outgoing,
    RefusedError,
    ServerError,
    Worker,
    handling,
    message_calls,
)
from tests.client.broker import RespBroker
from tests.serving import serving


class Spans:
    """The spans that have ended, and a tracer of the program."""

    def __init__(self, exporter: InMemorySpanExporter, tracer: Tracer) -> None:
        self._exporter = exporter
        self.tracer = tracer

    def of(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def the(self, name: str) -> ReadableSpan:
        (span,) = self.of(name)
        return span

    def names(self) -> list[str]:
        return [span.name for span in self._exporter.get_finished_spans()]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """A tracer that is configured for the time of the test."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return Spans(exporter, provider.get_tracer("program"))


def context_of(span: ReadableSpan) -> str:
    """Return the header that a span writes into messages."""
    assert span.context is not None
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


def trace_id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def span_id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def linked_by(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent and span.parent.span_id


def test_a_publish_is_a_span_whose_context_is_in_the_headers(spans, resp_broker, client, topic):
    with spans.tracer.start_as_current_span("order"):
        message_id = client.publish(topic, b"x", headers={"a": "b"})
    span = spans.the(f"publish {topic}")
    [message] = client.receive(topic)
    assert message.headers == (("a", b"b"), ("traceparent", context_of(span).encode()))
    assert trace_id_of(span) == trace_id_of(spans.the("order"))
    assert span.kind == SpanKind.PRODUCER
    port = int(resp_broker.url.rpartition(":")[2])
    assert dict(span.attributes or {}) == {
        "messaging.system": "miniqueue",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.message.id": message_id,
        "messaging.message.body.size": 1,
        "server.address": "127.0.0.1",
        "server.port": port,
    }


def test_a_receive_is_a_span_that_is_linked_to_the_publishes(spans, client, topic):
    client.publish_json(topic, 1)
    client.publish_each(topic, [Outgoing("two"), Outgoing("three", headers=[("a", "b")])])
    client.publish_many(topic, ["four"])
    assert client.receive(f"{topic}.empty") == []
    client.receive(topic, count=4, group="default")
    span = spans.the(f"receive {topic}")
    one, each, many = (spans.the(f"{name} {topic}") for name in ("publish_json", "publish_each", "publish_many"))
    assert linked_by(span) == [span_id_of(one), span_id_of(each), span_id_of(each), span_id_of(many)]
    assert (span.kind, spans.names().count("receive")) == (SpanKind.CLIENT, 0)
    assert (span.attributes or {})["messaging.batch.message_count"] == 4
    assert (span.attributes or {})["messaging.consumer.group.name"] == "default"
    assert (many.attributes or {})["messaging.batch.message_count"] == 1


@pytest.mark.parametrize(("count", "size", "is_carried"), [(1999, 1, True), (2000, 1, False), (100, 20_900, False)])
def test_a_batch_that_has_no_room_for_the_context_is_published_without_it(
    spans, client, topic, count, size, is_carried
):
    payloads = ["x" * size] * count
    client.publish_many(topic, payloads)
    client.publish_each(topic, [Outgoing(payload) for payload in payloads])
    assert client.length(topic) == 2 * count
    for message in client.receive(topic), client.peek(topic, count=1, after=f"0-{count - 1}"):
        assert bool(message[0].headers) == is_carried


def test_a_worker_handles_each_message_in_the_trace_of_its_publish(spans, client, topic):
    def handle(message: Message) -> None:
        if message.text == "later" and message.deliveries == 1:
            raise Delay(0)
        if message.text == "wrong" and message.deliveries == 1:
            raise ValueError("it is wrong")
        client.publish(f"{topic}.next", message.payload)
        if client.length(f"{topic}.next") == 2:
            worker.stop()

    with spans.tracer.start_as_current_span("order"):
        client.publish(topic, "later")
        client.publish(topic, "wrong")
    worker = Worker(client, topic, handle)
    worker.run()
    handled = spans.of(f"process {topic}")
    assert [span.kind for span in handled] == [SpanKind.CONSUMER] * 4
    assert {trace_id_of(span) for span in handled} == {trace_id_of(spans.the("order"))}
    assert set(map(parent_of, handled)) == set(map(span_id_of, spans.of(f"publish {topic}")))
    failed = [span for span in handled if span.status.status_code == StatusCode.ERROR]
    assert [(span.status.description, (span.attributes or {})["error.type"]) for span in failed] == [
        ("it is wrong", "ValueError")
    ]
    following = spans.of(f"publish {topic}.next")
    assert {trace_id_of(span) for span in following} == {trace_id_of(spans.the("order"))}
    assert spans.of(f"receive {topic}")


async def test_a_worker_with_tasks_does_so_too(spans, resp_broker, topic):
    async def handle(message: Message) -> None:
        await client.publish(f"{topic}.next", message.payload)
        worker.stop()

    async with AsyncClient(resp_broker.url) as client:
        await client.publish(topic, "one")
        worker = AsyncWorker(client, topic, handle)
        await worker.run()
    span = spans.the(f"process {topic}")
    assert parent_of(span) == span_id_of(spans.the(f"publish {topic}"))
    assert parent_of(spans.the(f"publish {topic}.next")) == span_id_of(span)


def test_a_program_handles_what_it_receives_in_the_trace_of_the_publish(spans, client, topic):
    client.publish(topic, "one")
    [message] = client.receive(topic)
    with handling(message, "default"), pytest.raises(RefusedError):
        client.publish("", "x")
    span = spans.the(f"process {topic}")
    assert parent_of(span) == span_id_of(spans.the(f"publish {topic}"))
    refused = spans.the("publish ")
    assert (parent_of(refused), refused.status.status_code) == (span_id_of(span), StatusCode.ERROR)
    assert (refused.attributes or {})["error.type"] == "BADTOPIC"


def test_publishes_of_a_transaction_have_spans_of_their_own(spans, client, topic):
    with client.transaction() as transaction:
        transaction.publish(topic, "one")
        transaction.publish_json(topic, 2)
    received = client.receive(topic, count=2)
    created = [spans.the(f"publish {topic}"), spans.the(f"publish_json {topic}")]
    assert [message.header("traceparent") for message in received] == list(map(context_of, created))
    assert {(span.attributes or {})["messaging.operation.type"] for span in created} == {"create"}


async def test_over_http2_a_transaction_and_a_receive_are_traced(spans, certificates):
    async with serving(certificates) as served:
        client = await served.client()
        async with client.transaction() as transaction:
            transaction.publish("t", b"x")
        [message] = await client.receive("t")
    assert message.header("traceparent") == context_of(spans.the("publish t"))
    assert linked_by(spans.the("receive t")) == [span_id_of(spans.the("publish t"))]
    assert (spans.the("receive t").attributes or {})["server.address"] == "localhost"


async def test_over_http2_the_context_is_in_the_headers_of_each_publish(spans, certificates):
    async with serving(certificates) as served:
        client = await served.client()
        with spans.tracer.start_as_current_span("order"):
            await client.publish(b"t", b"one")
            await client.publish_json("t", 2)
            assert [answer async for answer in client.publish_lines("t", [b"three", b"\xff"])] == ["0-2", "0-3"]
        received = await client.receive("t", count=4)
    sent = [spans.the(f"{name} t") for name in ("publish", "publish_json", "publish_lines", "publish_lines")]
    assert [message.headers for message in received] == [(("traceparent", context_of(span).encode()),) for span in sent]
    assert [message.payload for message in received] == [b"one", b"2", b"three", b"\xff"]
    assert set(map(parent_of, sent)) == {span_id_of(spans.the("order"))}
    assert (sent[0].attributes or {})["messaging.message.body.size"] == 3


async def test_over_http2_a_stream_that_is_refused_is_a_span_with_the_error(spans, certificates):
    async with serving(certificates) as served:
        client = await served.client()
        with pytest.raises(ServerError):
            [answer async for answer in client.publish_lines("", [b"x"])]
    assert spans.the("publish_lines ").status.status_code == StatusCode.ERROR


def test_the_headers_that_a_program_has_set_stay(spans, client, topic):
    set_by_program = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    client.publish(topic, "x", headers=[("traceparent", set_by_program), ("tracestate", "v=1")])
    [message] = client.receive(topic)
    assert message.headers == (("traceparent", set_by_program.encode()), ("tracestate", b"v=1"))
    with handling(message):
        pass
    span = spans.the(f"process {topic}")
    assert f"{trace_id_of(span):032x}" in set_by_program
    assert span.context is not None
    assert span.context.trace_state.get("v") == "1"


def test_a_receive_that_fails_is_a_span_with_the_error(spans):
    with Client("redis://127.0.0.1:1", retries=0) as client, pytest.raises(ConnectError):
        client.receive("t")
    assert spans.the("receive t").status.status_code == StatusCode.ERROR
    assert (spans.the("receive t").attributes or {})["error.type"] == "ERR"


def test_wrong_arguments_are_a_type_error_with_a_tracer_too(spans, client):
    with pytest.raises(TypeError):
        client.publish()
    assert spans.names() == []


def test_without_a_configured_tracer_messages_have_no_headers(client, topic):
    client.publish(topic, "one")
    [message] = client.receive(topic)
    with handling(message):
        pass
    assert message.headers == ()


def test_the_client_works_where_the_api_is_not_installed(resp_broker: RespBroker, topic):
    program = (
        "import sys; sys.modules['opentelemetry'] = None; from miniqueue_client import Client, handling\n"
        f"with Client({resp_broker.url!r}) as client:\n"
        f"    client.publish({topic!r}, 'x')\n"
        f"    with handling(client.receive({topic!r})[0]) as nothing: print(nothing)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_the_functions_of_calls_add_no_headers(spans):
    assert "HEADER" not in message_calls.publish("t", "x").words
