import structlog.testing
from prometheus_client import CollectorRegistry, generate_latest

from miniqueue.server.asgi.refusals import Reason, Refusals
from miniqueue.server.monitor.metrics import HTTP_REFUSAL_ROWS
from miniqueue.server.process.metric_rows import RowCollector
from miniqueue.server.process.repeats import LOG_INTERVAL_SECONDS

CLIENT = ("192.0.2.1", 4711)


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


def test_every_refusal_is_counted_and_one_a_minute_is_logged():
    clock = Clock()
    refusals = Refusals(clock)
    with structlog.testing.capture_logs() as logged:
        for _ in range(1000):
            refusals.count(Reason.FLOOD, CLIENT)
        clock.seconds += LOG_INTERVAL_SECONDS
        refusals.count(Reason.FLOOD, CLIENT)
        refusals.count(Reason.SLOW_BODY, None)
    assert refusals.counts == {Reason.FLOOD: 1001, Reason.SLOW_BODY: 1}
    assert [(entry["reason"], entry["client"], entry["held_back"]) for entry in logged] == [
        ("flood", "192.0.2.1", 0),
        ("flood", "192.0.2.1", 999),
        ("slow_body", None, 0),
    ]


def test_metric_has_every_reason():
    refusals = Refusals(Clock())
    refusals.count(Reason.FLOOD, CLIENT)
    registry = CollectorRegistry()
    registry.register(RowCollector(HTTP_REFUSAL_ROWS, refusals))
    text = generate_latest(registry).decode()
    assert 'miniqueue_http_refusals_total{reason="flood"} 1.0' in text
    assert all(f'miniqueue_http_refusals_total{{reason="{reason}"}}' in text for reason in Reason)


def test_traceback_of_an_internal_error_is_logged_once_a_minute():
    refusals = Refusals(Clock())
    with structlog.testing.capture_logs() as logged:
        for _ in range(10):
            refusals.count(Reason.INTERNAL_ERROR, CLIENT)
    assert [entry["exc_info"] for entry in logged] == [True]
