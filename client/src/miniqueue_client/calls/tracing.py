"""Traces by OpenTelemetry: spans of what a client does, and the W3C trace context in the headers of messages.

    publish ─▶ span `publish orders` ─▶ header traceparent: 00-<trace>-<span>-01
                                                  │
    receive ─▶ span `receive orders`, linked to ◀─┤
    handle  ─▶ span `process orders`, a child of ◀┘    what the handler publishes is in the same trace

Names and attributes are those of the semantic conventions for messaging. A program that traces has imported the API of
OpenTelemetry and has configured a tracer. Otherwise, nothing here is done, and the API is not imported: each call only
looks whether it is there. Does not know connections.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from miniqueue_client.calls.messages import Headers, Outgoing, Payload, fit_together, pairs_of
from miniqueue_client.calls.outcomes import Outcome
from miniqueue_client.calls.values import Message

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer, TracerProvider

#: The name of the tracer.
NAME: Final = "miniqueue_client"
_SYSTEM: Final = "miniqueue"

#: Sets attributes of the span by the result of the call.
Done: TypeAlias = Callable[[object], None]
#: The arguments of a call, by name.
Arguments: TypeAlias = MutableMapping[str, Any]
#: Traces a call with these arguments, whose name and broker come first; may add headers to them.
Tracing: TypeAlias = Callable[[str, Mapping[str, object], Arguments], AbstractContextManager[Done]]


def is_active() -> bool:
    """Whether the program has configured a tracer."""
    return _tracer() is not None


def _tracer() -> "Tracer | None":
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    provider = api.get_tracer_provider()
    return None if isinstance(provider, (api.ProxyTracerProvider, api.NoOpTracerProvider)) else _tracer_of(provider)


@lru_cache(maxsize=1)  # a program has one, and to make a tracer takes longer than to make a span
def _tracer_of(provider: "TracerProvider") -> "Tracer":
    return provider.get_tracer(NAME)


@contextmanager
def sending(name: str, server: Mapping[str, object], arguments: Arguments) -> Iterator[Done]:
    """Trace a publish, and add its context to the headers of its messages, if they can have headers."""
    with _producing(name, "send", server, arguments) as span:

        def done(result: object) -> None:
            if isinstance(result, str):
                span.set_attribute("messaging.message.id", result)

        yield done


@contextmanager
def creating(name: str, server: Mapping[str, object], arguments: Arguments) -> Iterator[Done]:
    """Trace a publish in a transaction, which is sent later."""
    with _producing(name, "create", server, arguments):
        yield _ignore


@contextmanager
def streaming(name: str, topic: str, server: Mapping[str, object]) -> Iterator[list[tuple[str, str]]]:
    """Trace the publishes of a stream; yield the headers of its messages, none if the program does not trace.

    The span is not the current one, since the program does other things while the stream is open.
    """
    tracer = _tracer()
    if tracer is None:
        yield []
        return
    from opentelemetry import trace  # noqa: PLC0415 - optional

    attributes = _attributes(name, "send", [topic], server)
    span = tracer.start_span(_span_name(name, [topic]), kind=trace.SpanKind.PRODUCER, attributes=attributes)
    try:
        yield _context_headers(trace.set_span_in_context(span))
    except Exception as exc:
        _record_error(span, exc)
        raise
    finally:
        span.end()


@contextmanager
def receiving(name: str, server: Mapping[str, object], arguments: Arguments) -> Iterator[Done]:
    """Trace a receive, if it returns messages or fails."""
    begun_ns = time_ns()
    topic = arguments.get("topic")
    topics = [topic] if isinstance(topic, str) else list(arguments.get("topics", ()))
    group = arguments.get("group")

    def done(result: object) -> None:
        if isinstance(result, list):
            record_receive(topics, group, result, begun_ns, server)

    try:
        yield done
    except Exception as exc:
        record_receive(topics, group, (), begun_ns, server, exc)
        raise


def record_receive(
    topics: Sequence[str],
    group: str | None,
    messages: Sequence[Message],
    begun_ns: int,
    server: Mapping[str, object],
    error: Exception | None = None,
) -> None:
    """Record a receive that has ended, unless there is nothing to say of it; the span is linked to the publishes."""
    tracer = _tracer()
    if tracer is None or not (messages or error):
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - optional

    attributes = _attributes("receive", "receive", topics, server)
    attributes["messaging.batch.message_count"] = len(messages)
    if group is not None:
        attributes["messaging.consumer.group.name"] = group
    span = tracer.start_span(
        _span_name("receive", topics),
        kind=SpanKind.CLIENT,
        attributes=attributes,
        links=[link for message in messages for link in _links(message)],
        start_time=begun_ns,
    )
    if error is not None:
        _record_error(span, error)
    span.end()


def handling(message: Message, group: str | None = None) -> AbstractContextManager[None]:
    """Return a block in which a message is handled: a span in the trace of its publish, if the program traces.

    Workers do so themselves; programs that call `receive` can do it for each message: `with handling(message):`.
    """
    tracer = _tracer()
    return nullcontext() if tracer is None else _handling(tracer, message, group)


@contextmanager
def _handling(tracer: "Tracer", message: Message, group: str | None) -> Iterator[None]:
    from opentelemetry import propagate, trace  # noqa: PLC0415 - optional

    attributes = _attributes("process", "process", [message.topic], {})
    attributes |= {"messaging.message.id": message.id, "messaging.message.body.size": len(message.payload)}
    if group is not None:
        attributes["messaging.consumer.group.name"] = group
    span = tracer.start_span(
        _span_name("process", [message.topic]),
        context=propagate.extract(_carrier_of(message)),
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
    )
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except Outcome:
            raise
        except Exception as exc:
            _record_error(span, exc)
            raise


@contextmanager
def _producing(name: str, kind: str, server: Mapping[str, object], arguments: Arguments) -> "Iterator[Span]":
    from opentelemetry import trace  # noqa: PLC0415 - optional

    tracer = _tracer()
    assert tracer is not None  # the caller has asked
    topic = arguments["topic"]
    attributes = _attributes(name, kind, [topic], server)
    batch = arguments.get("payloads", arguments.get("messages"))
    if batch is not None:
        attributes["messaging.batch.message_count"] = len(batch)
    elif isinstance(payload := arguments.get("payload"), bytes):
        attributes["messaging.message.body.size"] = len(payload)
    span = tracer.start_span(_span_name(name, [topic]), kind=trace.SpanKind.PRODUCER, attributes=attributes)
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        _inject(name, arguments)
        try:
            yield span
        except Exception as exc:
            _record_error(span, exc)
            raise


def _inject(name: str, arguments: Arguments) -> None:
    """Add the context to the headers of what is published; not of a batch that would be too large for one command."""
    if name == "publish_each":
        messages = [each._replace(headers=_with_context(each.headers)) for each in arguments["messages"]]
        if fit_together(messages):
            arguments["messages"] = messages
        return
    headers = _with_context(arguments.get("headers", ()))
    if name != "publish_many" or fit_together(Outgoing(payload, headers) for payload in arguments["payloads"]):
        arguments["headers"] = headers


def _with_context(headers: Headers) -> list[tuple[str, Payload]]:
    """Return headers with those of the current context, unless the publisher has set the same ones."""
    pairs = pairs_of(headers)
    own = {name for name, _ in pairs}
    return [*pairs, *((name, value) for name, value in _context_headers() if name not in own)]


def _context_headers(context: "Context | None" = None) -> list[tuple[str, str]]:
    """Return the headers that carry a context, or the current one."""
    from opentelemetry import propagate  # noqa: PLC0415 - optional

    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    return list(carrier.items())


def _carrier_of(message: Message) -> dict[str, str]:
    return {name: value.decode("utf-8", "replace") for name, value in message.headers}


def _links(message: Message) -> "list[Link]":
    from opentelemetry import context, propagate, trace  # noqa: PLC0415 - optional

    carried = propagate.extract(_carrier_of(message), context=context.Context())
    published = trace.get_current_span(carried).get_span_context()
    return [trace.Link(published)] if published.is_valid else []


def _attributes(name: str, kind: str, topics: Sequence[str], server: Mapping[str, object]) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "messaging.system": _SYSTEM,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        **server,
    }
    if len(topics) == 1:
        attributes["messaging.destination.name"] = topics[0]
    return attributes


def _span_name(name: str, topics: Sequence[str]) -> str:
    return f"{name} {topics[0]}" if len(topics) == 1 else name


def _record_error(span: "Span", error: Exception) -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - optional

    code = getattr(error, "code", None)
    span.record_exception(error)
    span.set_attribute("error.type", code if isinstance(code, str) else type(error).__name__)
    span.set_status(StatusCode.ERROR, str(error))


def _ignore(_result: object) -> None:
    """Learn nothing of the result."""
