"""The log is valid JSON or readable columns whatever peers send, and it never fails or floods."""

import errno
import io
import json
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from miniqueue.server.process import logs

HOSTILE = "a\x1b[2J\r\n\x9b\u202e\udcff"
HOSTILE_SHOWN = "a\\x1b[2J\\r\\n\\x9b\\u202e\\udcff"


class Clock:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


class FullDisk(io.StringIO):
    """A stream with no room left."""

    def write(self, _text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(autouse=True)
def _restore_logging():
    root = logging.getLogger()
    level = root.level
    yield
    root.level = level
    root.handlers[:] = [handler for handler in root.handlers if type(handler).__module__ != logs.__name__]
    structlog.reset_defaults()


@pytest.fixture
def stream():
    return io.StringIO()


def events(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_a_json_line_with_time_level_and_event_first(stream):
    logs.configure("debug", human=False, stream=stream)
    structlog.get_logger().info("topic purged", topic="orders", messages=3)
    [event] = events(stream)
    assert list(event) == ["time", "level", "event", "topic", "messages"]
    time = datetime.fromisoformat(event.pop("time"))
    assert time.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - time) < timedelta(minutes=1)
    assert event == {"level": "info", "event": "topic purged", "topic": "orders", "messages": 3}


LEVELS = [
    ("debug", ["debug", "info", "warning", "error", "critical"]),
    ("info", ["info", "warning", "error", "critical"]),
    ("warning", ["warning", "error", "critical"]),
    ("error", ["error", "critical"]),
    ("disabled", []),
]


@pytest.mark.parametrize("human", [False, True])
@pytest.mark.parametrize(("level", "logged"), LEVELS)
def test_a_level_logs_itself_and_what_is_worse(stream, level, logged, human):
    logs.configure(level, human, stream)
    logger = structlog.get_logger()
    for name in LEVELS[0][1]:
        getattr(logger, name)(f"this is {name}")
    assert [line.split("this is ")[1].split('"')[0].strip() for line in stream.getvalue().splitlines()] == logged


VALUES = [
    (HOSTILE, HOSTILE_SHOWN),
    (HOSTILE.encode("utf-8", "surrogatepass"), None),
    (b"\xff\x00\n", "\\xff\\x00\\n"),
    (bytearray(b"\x1b"), "\\x1b"),
    (memoryview(b"\x1b" * 10**6), "\\x1b" * 49 + "\\..."),
    ("x" * 1000, "x" * 197 + "..."),
    ([b"\x1b", HOSTILE, [HOSTILE]], ["\\x1b", HOSTILE_SHOWN, "<list>"]),
    ({"a": HOSTILE, HOSTILE: 1}, {"a": HOSTILE_SHOWN, HOSTILE_SHOWN: 1}),
    (tuple(range(11)), [*range(10), "..."]),
    (ValueError(HOSTILE), HOSTILE_SHOWN),
    (7, 7),
    (True, True),
    (None, None),
    (0.5, 0.5),
    (float("nan"), None),
    (2**64, str(2**64)),
    (10**5000, "<int>"),
]


@pytest.mark.parametrize("human", [False, True])
@pytest.mark.parametrize(("value", "shown"), VALUES, ids=lambda value: type(value).__name__)
def test_values_are_made_harmless(stream, value, shown, human):
    logs.configure("debug", human, stream)
    structlog.get_logger().info("seen", field=value)
    assert stream.getvalue().removesuffix("\n").isprintable()
    assert len(stream.getvalue()) < 400
    if shown is not None and not human:
        assert events(stream)[0]["field"] == shown


def test_a_value_that_cannot_be_shown_is_named_by_its_type(stream):
    class Broken:
        def __str__(self):
            raise RuntimeError("no")

    logs.configure("debug", human=False, stream=stream)
    structlog.get_logger().info("seen", field=Broken())
    assert events(stream)[0]["field"] == "<Broken>"


def test_a_value_nested_without_end_is_no_trouble(stream):
    value = []
    for _ in range(100_000):
        value = [value]
    logs.configure("debug", human=False, stream=stream)
    structlog.get_logger().info("seen", field=value)
    assert events(stream)[0]["field"] == ["<list>"]


@given(st.text(max_size=50) | st.binary(max_size=50) | st.integers() | st.floats(), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_logged_is_one_printable_line(value, human):
    stream = io.StringIO()
    logs.configure("debug", human, stream)
    structlog.get_logger().info("seen", field=value)
    [line, rest] = stream.getvalue().split("\n")
    assert line.isprintable()
    assert rest == ""
    assert human or json.loads(line)["event"] == "seen"


def test_people_get_columns_with_colours_on_a_terminal_only(stream):
    terminal = Terminal()
    for target in (stream, terminal):
        logs.configure("debug", human=True, stream=target)
        structlog.get_logger().info("listening", port=8080, topic=HOSTILE)
    assert "listening" in stream.getvalue()
    assert "port=8080" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    assert "\x1b[2J" not in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue()


@pytest.mark.parametrize(
    ("human", "target", "is_json"),
    [(None, io.StringIO, True), (None, Terminal, False), (False, Terminal, True), (True, io.StringIO, False)],
)
def test_people_get_columns_on_a_terminal_unless_it_is_set_otherwise(human, target, is_json):
    stream = target()
    logs.configure("debug", human, stream)
    structlog.get_logger().info("listening", port=8080)
    assert stream.getvalue().startswith("{") == is_json


@pytest.mark.parametrize("human", [False, True])
def test_a_traceback_is_shown_but_its_message_cannot_forge_a_line(stream, human):
    logs.configure("debug", human, stream)
    try:
        raise ValueError("one\n2025-01-01T00:00:00Z [info] forged\x1b[2J")
    except ValueError:
        structlog.get_logger().exception("failed")
    text = stream.getvalue() if human else events(stream)[0]["event"] + "\n" + events(stream)[0]["exception"]
    lines = text.splitlines()
    assert "failed" in lines[0]
    assert all(line.startswith("  ") for line in lines[1:])
    assert "  ValueError: one" in lines
    assert "  2025-01-01T00:00:00Z [info] forged\\x1b[2J" in lines


def test_a_long_traceback_keeps_its_end(stream):
    logs.configure("debug", human=False, stream=stream)
    structlog.get_logger().error("failed", exception="\n".join(map(str, range(1000))))
    assert events(stream)[0]["exception"].splitlines()[-1] == "  999"
    assert len(events(stream)[0]["exception"].splitlines()) == 60


def test_a_stream_that_fails_does_not_fail_the_caller(stream):
    logs.configure("debug", human=False, stream=stream)
    logger = structlog.get_logger()
    stream.close()
    logger.info("this is not logged")


def test_a_full_disk_does_not_fail_the_caller():
    logs.configure("debug", human=False, stream=FullDisk())
    structlog.get_logger().info("this is not logged")


def test_libraries_are_heard_from_warnings_upwards_in_the_same_form(stream):
    logs.configure("debug", human=False, stream=stream)
    library = logging.getLogger("hypercorn.error")
    library.info("not this")
    library.warning("slow %s", HOSTILE)
    library.log(35, "odd level")
    assert [(event["level"], event["event"], event["logger"]) for event in events(stream)] == [
        ("warning", "slow " + HOSTILE_SHOWN, "hypercorn.error"),
        ("warning", "odd level", "hypercorn.error"),
    ]


def test_arguments_that_do_not_fit_their_template_are_left_out(stream):
    logs.configure("debug", human=False, stream=stream)
    root = logging.getLogger()
    root.handlers[:] = root.handlers[-1:]  # those of pytest would raise
    logging.getLogger("asyncio").error("%d is no number", "x")
    assert events(stream)[0]["event"] == "%d is no number"


def test_libraries_log_their_tracebacks(stream):
    logs.configure("debug", human=False, stream=stream)
    try:
        raise OSError("gone")
    except OSError:
        logging.getLogger("asyncio").exception("Error in ASGI Framework")
    assert events(stream)[0]["exception"].endswith("  OSError: gone")


@pytest.mark.parametrize(("level", "count"), [("error", 1), ("disabled", 0)])
def test_libraries_obey_the_level_too(stream, level, count):
    logs.configure(level, human=False, stream=stream)
    logging.getLogger("asyncio").warning("quiet")
    logging.getLogger("asyncio").critical("loud")
    assert len(events(stream)) == count


def test_a_library_says_the_same_thing_once_a_minute_with_a_count(stream):
    clock = Clock()
    logs.configure("debug", human=False, stream=stream, monotonic=clock)
    library = logging.getLogger("asyncio")

    def complain(number):
        library.error("out of file descriptors: %d\ndetail %d", number, number)

    for number in range(1000):
        complain(number)
    library.error("something else")
    clock.seconds = 60.0
    complain(1000)
    assert [(event["event"].split("\\n")[0], event.get("held_back")) for event in events(stream)] == [
        ("out of file descriptors: 0", None),
        ("something else", None),
        ("out of file descriptors: 1000", 999),
    ]


def test_configuring_again_replaces_what_was_there(stream):
    logs.configure("debug", human=False, stream=io.StringIO())
    logs.configure("debug", human=False, stream=stream)
    logging.getLogger("asyncio").warning("once")
    assert len(events(stream)) == 1


def test_standard_error_is_the_default():
    program = (
        "from miniqueue.server.process import logs; logs.configure('info', False)\n"
        "import structlog; structlog.get_logger().info('hi')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout == ""
    assert json.loads(done.stderr)["event"] == "hi"


def test_the_command_imports_structlog_without_rich_and_others_can_import_rich(tmp_path):
    (tmp_path / "rich.py").write_text("print('imported')")
    program = "from miniqueue import cli; import structlog, miniqueue.server.run; print('no'); import rich"
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    assert done.stdout.split() == ["no", "imported"]
