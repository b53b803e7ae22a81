"""A broker whose only user has the password of a variable or of a file: who it lets in, and what its tools need."""

import signal
from pathlib import Path

import pytest
import redis

from tests.acceptance import patient
from tests.acceptance.process import FREE_PORTS, BrokerProcess, Trust, environment, run_to_end
from tests.acceptance.users import UsersFile

pytestmark = pytest.mark.acceptance

PASSWORD = "a: löng secret"
VARIABLE = {"MINIQUEUE_PASSWORD": PASSWORD}


def client(broker: BrokerProcess, password: str) -> "redis.Redis[bytes]":
    return patient.Redis(port=broker.resp_port, password=password)


def test_the_password_lets_in_and_nothing_else_does(trust, tmp_path):
    flags = [*FREE_PORTS, *trust.flags, "-host", "0.0.0.0"]
    broker = BrokerProcess(flags, cwd=tmp_path, env=environment(**VARIABLE))
    try:
        broker.wait_until_ready()
        with client(broker, PASSWORD) as known, client(broker, "another secret") as stranger:
            assert known.publish("orders", "1") == b"OK"
            with pytest.raises(redis.AuthenticationError):
                stranger.ping()
        port = str(broker.monitor_port)
        for variables, code in ((VARIABLE, 0), ({}, 69), ({"MINIQUEUE_PASSWORD": "another secret"}, 69)):
            done = run_to_end("export", "-monitor-port", port, "orders", cwd=tmp_path, variables=variables)
            assert done.returncode == code, done.stderr
        trace = run_to_end(
            "trace", "-resp-port", str(broker.resp_port), "orders", "0-0", cwd=tmp_path, variables=VARIABLE
        )
        assert "NOAUTH" not in trace.stderr
        assert "NOMESSAGE" in trace.stderr
        broker.stop()
        assert PASSWORD not in broker.output
    finally:
        broker.end()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def is_let_in(broker: BrokerProcess, password: str) -> bool:
    with client(broker, password) as one:
        try:
            return bool(one.ping())
        except redis.AuthenticationError:
            return False


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file with a password."""
    path = tmp_path / "secret"
    path.touch(0o600)
    path.write_text("the first secret\n")
    return path


def start(trust: Trust, secret: Path, *flags: str) -> BrokerProcess:
    flags = (*FREE_PORTS, *trust.flags, "-password-file", str(secret), *flags)
    return BrokerProcess(flags, cwd=secret.parent)


def test_a_new_password_in_the_file_counts_after_sighup(trust, secret):
    broker = start(trust, secret)
    try:
        broker.wait_until_ready()
        assert is_let_in(broker, "the first secret")
        secret.write_text("the second secret\n")
        broker.process.send_signal(signal.SIGHUP)
        broker.wait_for_events("users read again")
        assert not is_let_in(broker, "the first secret")
        assert is_let_in(broker, "the second secret")
        broker.stop()
    finally:
        broker.end()


def test_a_users_file_that_is_made_later_replaces_the_password_after_sighup(trust, secret, tmp_path):
    users = UsersFile(tmp_path)
    broker = start(trust, secret, "-users", str(users.path))
    try:
        broker.wait_until_ready()
        assert is_let_in(broker, "the first secret")
        token = users.add("ada", "-admin", "*")
        broker.process.send_signal(signal.SIGHUP)
        broker.wait_for_events("users read again")
        assert not is_let_in(broker, "the first secret")
        assert is_let_in(broker, token)
        broker.stop()
    finally:
        broker.end()


def test_a_password_that_cannot_be_one_is_78(tmp_path: Path):
    done = run_to_end(*FREE_PORTS, cwd=tmp_path, variables={"MINIQUEUE_PASSWORD": "short"})
    assert done.returncode == 78
    assert done.stderr == "miniqueue: variable MINIQUEUE_PASSWORD: invalid password; must have 8 to 1024 bytes\n"
