"""Starts of several processes: each problem is reported once, with the exit code of one process, and signals wait."""

import os
import signal
import socket

import pytest

from miniqueue.storage.leveldb.shards import claim_shards
from tests.acceptance.lifecycle.test_signals import Held, filled_store, marker_of
from tests.acceptance.process import FREE_PORTS, BrokerProcess, run_to_end

pytestmark = pytest.mark.acceptance

SHARDS = 2
FLAGS = (*FREE_PORTS, "-shards", str(SHARDS))


def refusal(directory, *flags: str, code: int) -> str:
    """Return the line about why a broker cannot start."""
    done = run_to_end(*FLAGS, *flags, cwd=directory)
    assert done.returncode == code, done.stderr
    [line] = [line for line in done.stderr.splitlines() if line.startswith("miniqueue: ")]
    return line


def test_a_port_in_use_leaves_the_store_alone(trust, directory):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        line = refusal(directory, *trust.flags, "-resp-port", str(taken.getsockname()[1]), code=69)
    assert "Address already in use" in line
    assert not (directory / "data").exists()


def test_defaults_that_no_topic_can_have_are_reported_once_and_make_no_store(trust, directory):
    (directory / "c.toml").write_text("""[defaults."orders.*"]\nschema = {type = "what"}\n""")
    line = refusal(directory, *trust.flags, "-config", "c.toml", code=78)
    assert "the defaults of new topics: schema must be a JSON Schema: " in line
    assert not (directory / "data").exists()


def test_a_store_in_use_is_reported_once_with_the_process_that_uses_it(trust, directory):
    owner = claim_shards(directory / "data", SHARDS)
    try:
        line = refusal(directory, *trust.flags, code=73)
    finally:
        owner.release()
    assert line == f"miniqueue: flag -db: data is in use by process {os.getpid()}"


def test_a_directory_with_something_else_is_named_with_its_flag(trust, directory):
    (directory / "data").mkdir(0o700)
    (directory / "data/holiday.jpg").write_bytes(b"beach")
    line = refusal(directory, *trust.flags, code=65)
    assert line == "miniqueue: flag -db: data is neither empty nor a miniqueue store (no miniqueue.shards in it)"
    assert [path.name for path in (directory / "data").iterdir()] == ["holiday.jpg"]


def test_access_that_a_mount_gave_to_a_group_is_withdrawn_from_the_whole_store(trust, directory):
    claim_shards(directory / "data", SHARDS).release()
    for path in (directory / "data", *(directory / "data").rglob("*")):
        path.chmod(0o2770 if path.is_dir() else 0o660)
    broker = BrokerProcess([*FLAGS, *trust.flags], cwd=directory)
    try:
        broker.wait_until_ready().stop()
    finally:
        broker.end()
    assert {path.stat().st_mode & 0o077 for path in (directory / "data", *(directory / "data").rglob("*"))} == {0}


def held_start(directory) -> Held:
    """Return a broker of which one process waits for its store."""
    marker = marker_of(filled_store(directory / "store", SHARDS))
    return Held(directory, (*FLAGS, "-db", "store"), "open", marker)


def test_a_start_that_a_signal_interrupts_has_the_exit_code_of_the_signal(directory):
    held = held_start(directory)
    os.kill(held.pid, signal.SIGINT)  # each process gets SIGTERM
    held.release()
    assert held.ended()[0] == 130


def test_sighup_during_a_start_waits_until_each_process_can_reload(directory):
    held = held_start(directory)
    os.kill(held.pid, signal.SIGHUP)
    held.release()
    assert held.process.stderr is not None
    said = ""
    while said.count("there are no users to be read again") < SHARDS:
        line = held.process.stderr.readline()
        assert line, said
        said += line
    os.kill(held.pid, signal.SIGTERM)
    assert held.ended()[0] == 0
