"""The one-file program that `make binary` makes: one process that needs nothing but glibc, /proc, and its data."""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from zipfile import ZipFile

import pytest

from miniqueue import __version__
from miniqueue.tools import TOOLS
from tests.acceptance.one_file import BINARY, NOT_CURRENT, is_current
from tests.acceptance.patient import Redis
from tests.acceptance.process import FREE_PORTS, HTTP_SERVERS, ROOT, BrokerProcess, environment
from tests.acceptance.tools import MAX_SECONDS, needs

#: Runs a command that can make no memory executable: PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN.
DENIED = """
import ctypes, os, sys
assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""
#: Runs a command in a root that contains only glibc, /proc, and the command. Only /data and /tmp can be written to, and
#: files there cannot be executed.
EMPTY_ROOT = """
root=$1; shift
mkdir "$root/proc" "$root/data" "$root/tmp"
cp --parents /lib64/ld-linux-x86-64.so.2 /lib/x86_64-linux-gnu/lib[cm].so.6 "$root"
cp --parents /lib/x86_64-linux-gnu/lib{dl.so.2,pthread.so.0,rt.so.1} "$root"
cp "$1" "$root/miniqueue"; shift
mount --bind "$root" "$root"
mount --rbind /proc "$root/proc"
mount -t tmpfs -o noexec none "$root/data"
mount -t tmpfs -o noexec none "$root/tmp"
mount -o remount,bind,ro "$root"
exec unshare --root="$root" --wd=/data /miniqueue "$@"
"""


pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(not is_current(), reason=NOT_CURRENT),
]


@contextmanager
def running(
    directory: Path, *flags: str, command: tuple[str | Path, ...] = (BINARY,)
) -> Iterator[tuple[BrokerProcess, Redis]]:
    broker = BrokerProcess([*FREE_PORTS, *flags], cwd=directory, command=list(map(str, command)))
    try:
        broker.wait_until_ready()
        with Redis(port=broker.resp_port) as client:
            yield broker, client
    finally:
        broker.end()


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BINARY, *arguments], cwd=cwd, env=environment(), capture_output=True, text=True, check=False)


def post(broker: BrokerProcess, path: str, body: bytes) -> int:
    connection = HTTPSConnection(
        "localhost", broker.https_port, timeout=MAX_SECONDS, context=ssl._create_unverified_context()
    )
    connection.request("POST", path, body)
    with connection.getresponse() as answer:
        answer.read()
    connection.close()
    return answer.status


def test_the_process_that_was_started_serves_and_survives_kill_9(tmp_path):
    with running(tmp_path) as (broker, client):
        tasks = Path(f"/proc/{broker.process.pid}/task").iterdir()
        assert "".join((task / "children").read_text() for task in tasks) == ""
        assert client.execute_command("PUBLISH", "letters", "Dear Ada") == b"OK"
        assert post(broker, "/publish/letters", b"Dear Bob") == 201
        assert run("check", cwd=tmp_path).returncode == 73
        broker.kill()
    assert run("check", cwd=tmp_path).returncode == 0
    with running(tmp_path) as (broker, client):
        received = client.execute_command("RECEIVE", "letters", "COUNT", 10)
        assert [message[1] for message in received] == [b"Dear Ada", b"Dear Bob"]
        broker.stop(signal.SIGINT)


@pytest.mark.parametrize("http_server", HTTP_SERVERS)
def test_it_runs_where_no_memory_may_become_executable(tmp_path, http_server):
    command = (sys.executable, "-c", DENIED, BINARY)
    with running(tmp_path, "-http-server", http_server, command=command) as (broker, _):
        assert post(broker, "/publish/letters", b"Dear Ada") == 201
        broker.stop()


@needs("unshare", "mount")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_it_needs_nothing_but_glibc_and_proc(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    command = ("unshare", "--mount", "bash", "-ec", EMPTY_ROOT, "bash", root, BINARY)
    with running(tmp_path, command=command) as (broker, client):
        schedule = ("SCHEDULE", "SET", "morning", "CRON", "0 9 * * *", "TZ", "Europe/Berlin", "letters", "Dear Ada")
        assert client.execute_command(*schedule) == b"OK"
        assert post(broker, "/publish/letters", b"Dear Bob") == 201
        broker.stop()


def test_an_upgrade_in_its_place_does_not_disturb_it(tmp_path):
    file = tmp_path / "miniqueue"
    file.write_bytes(BINARY.read_bytes())
    file.chmod(0o755)
    with running(tmp_path, command=(file,)) as (broker, _):
        (tmp_path / "new").write_bytes(b"another version")
        (tmp_path / "new").replace(file)
        assert post(broker, "/publish/letters", b"Dear Ada") == 201
        assert b"letters" in broker.monitor("/metrics")
        broker.stop()


@pytest.mark.parametrize("tool", TOOLS)
def test_every_subcommand_is_in_it(tmp_path, tool):
    done = run("help", tool, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: miniqueue {tool}")


def test_every_module_is_in_it():
    folders = (ROOT / "miniqueue", ROOT / "client/src/miniqueue_client")
    modules = {f"{path.relative_to(folder.parent)}c" for folder in folders for path in folder.rglob("*.py")}
    with ZipFile(BINARY) as archive:
        assert {name for name in archive.namelist() if name.startswith(("miniqueue/", "miniqueue_client/"))} == modules


def test_the_bill_of_materials_lists_what_is_locked():
    locked = dict(re.findall(r"^(\S+)==(\S+) ", (ROOT / ".ci/locks/binary.lock").read_text(), re.MULTILINE))
    with ZipFile(BINARY) as archive:
        bill = json.loads(archive.read("sbom.cdx.json"))
        licenses = archive.read("THIRD-PARTY.txt").decode()
    listed = {part["name"]: part["version"] for part in bill["components"] if part["purl"].startswith("pkg:pypi/")}
    assert listed == locked | {"miniqueue-client": __version__}
    required = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}
    assert f"pkg:pypi/granian@{locked['granian']}" in required[f"pkg:pypi/miniqueue@{__version__}"]
    assert all(f"\n{name} {version}: " in licenses for name, version in locked.items())
    contained = {part["name"] for wheel in bill["components"] for part in wheel.get("components", ())}
    assert contained >= {"leveldb", "snappy", "libuv", "hiredis", "openssl"}
    for name in ("OpenSSL", "LevelDB", "snappy", "libuv", "hiredis", "Expat", "zlib", "libffi", "libstdc++6", "pyo3"):
        assert name in licenses
    assert Path(f"{BINARY}-THIRD-PARTY.txt").read_text() == licenses
    assert json.loads(Path(f"{BINARY}-sbom.cdx.json").read_text()) == bill
