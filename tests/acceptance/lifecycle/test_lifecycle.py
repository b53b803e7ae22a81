"""Starting, being asked, stopping: what a shell, a supervisor and a container runtime see."""

import json
import signal
import ssl
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.acceptance.curl import Curl
from tests.acceptance.process import FREE_PORTS, BrokerProcess, environment, run_to_end
from tests.acceptance.telnet import Telnet, publish
from tests.acceptance.tools import MAX_SECONDS, needs

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("flag", ["-h", "-help", "--help"])
def test_help_lists_every_flag_and_exits_with_0(tmp_path, flag):
    done = run_to_end(flag, cwd=tmp_path)
    assert done.returncode == 0
    for name in ("-cert", "-key", "-db", "-human", "-level", "-period", "-port", "-resp-port", "-sync"):
        assert f"\n  {name}" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flag", ["-version", "--version"])
def test_version_is_one_line(tmp_path, flag):
    done = run_to_end(flag, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("miniqueue ")
    assert done.stdout.count("\n") == 1


def test_the_installed_command_makes_its_directories_and_certificates(tmp_path):
    command = Path(sys.executable).with_name("miniqueue")
    broker = BrokerProcess(FREE_PORTS, cwd=tmp_path, command=[str(command)])
    try:
        broker.wait_until_ready()
        made = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("certs/*.pem"))
        assert made == ["certs/ca-key.pem", "certs/ca.pem", "certs/localhost-key.pem", "certs/localhost.pem"]
        assert (tmp_path / "data").is_dir()
        broker.stop()
    finally:
        broker.end()


def test_variables_and_file_configure_it_and_flags_win(trust, tmp_path):
    (tmp_path / "settings.toml").write_text('resp-port = 0\nport = 1\nmax-message-size = "5"\n')
    variables = {"MINIQUEUE_PORT": "0", "MINIQUEUE_MONITOR_PORT": "0", "MINIQUEUE_MAX_MESSAGE_SIZE": "7"}
    arguments = ["-config", "settings.toml", *trust.flags, "-storage", "memory", "-max-message-size=9"]
    broker = BrokerProcess(arguments, cwd=tmp_path, env=environment(**variables))
    try:
        with Telnet(broker.wait_until_ready().resp_port) as telnet:
            telnet.say(b"PUBLISH a 123456789")
            assert telnet.read_until(b"\r\n") == b"+OK\r\n"
            telnet.say(b"PUBLISH a 1234567890")
            assert b"over the limit of 9" in telnet.read_until(b"\r\n")
        broker.stop()
    finally:
        broker.end()


def test_human_log_lines_are_not_json(trust, tmp_path):
    broker = BrokerProcess([*FREE_PORTS, *trust.flags, "-human", "-storage", "memory"], cwd=tmp_path)
    try:
        broker.wait_for_line("] ready ")
        broker.stop()
        assert "{" not in broker.output
    finally:
        broker.end()


@needs("curl")
@pytest.mark.parametrize(
    ("number", "http_server"),
    [(signal.SIGTERM, "hypercorn"), (signal.SIGINT, "granian")],
    ids=["SIGTERM", "SIGINT"],
)
def test_a_stop_returns_what_open_streams_hold(start_broker, trust, number, http_server):
    broker = start_broker("data", "-http-server", http_server)
    publish(broker.resp_port, "over-http", "1", "2")
    publish(broker.resp_port, "over-resp", "1", "2")
    curl = Curl(broker, trust)
    idle_tls = ssl.create_default_context(cafile=trust.ca)
    with (
        curl.subscribe("over-http") as stream,
        curl.subscribe("nothing-there") as waiting_stream,
        Telnet(broker.resp_port) as telnet,
        Telnet(broker.resp_port) as waiting,
        Telnet(broker.resp_port),
        Telnet(broker.https_port) as idle,
        idle_tls.wrap_socket(idle.socket, server_hostname="localhost"),
        Telnet(broker.https_port),
        Telnet(broker.monitor_port),
    ):
        stream.send("INIT")
        assert stream.receive_message() == b"1"
        waiting_stream.send("INIT")
        telnet.say(b"SUBSCRIBE over-resp")
        assert telnet.read_until(b"\r\n1\r\n") == b"$1\r\n1\r\n"
        waiting.say(b"SUBSCRIBE nothing-there")
        waiting.say(b"PING")
        waiting.read_until(b"+PONG\r\n")
        broker.stop(number)
    again = start_broker()
    for topic in ("over-http", "over-resp"):
        with Telnet(again.resp_port) as telnet:
            telnet.say(f"SUBSCRIBE {topic}".encode())
            assert telnet.read_until(b"\r\n1\r\n") == b"$1\r\n1\r\n"
            telnet.say(b"ACK")
            assert telnet.read_until(b"\r\n2\r\n") == b"+OK\r\n$1\r\n2\r\n"
    again.stop()


def test_a_second_signal_changes_nothing(start_broker):
    broker = start_broker()
    broker.process.send_signal(signal.SIGTERM)
    broker.stop(signal.SIGTERM)


def test_the_monitoring_port_answers(start_broker):
    broker = start_broker()
    publish(broker.resp_port, "orders", "1")
    assert json.loads(broker.monitor("/healthz")) == {"status": "ok"}
    assert json.loads(broker.monitor("/readyz")) == {"status": "ok"}
    assert json.loads(broker.monitor("/stats"))["topics"]["orders"]["ready"] == 1
    with urlopen(f"http://127.0.0.1:{broker.monitor_port}/metrics", timeout=MAX_SECONDS) as answer:
        assert answer.headers["content-type"].startswith("text/plain")
        assert b'topic="orders"' in answer.read()


def test_sighup_does_no_harm_without_users(start_broker):
    """Left to its default it ends a process, and an operator who reloads all services sends it."""
    broker = start_broker("data")
    broker.process.send_signal(signal.SIGHUP)
    broker.wait_for_event("there are no users to be read again")
    assert broker.monitor("/readyz")
    broker.stop()
