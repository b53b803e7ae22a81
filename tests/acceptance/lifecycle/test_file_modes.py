"""What a broker writes is for its owner only, whatever the umask of the shell that starts it."""

from pathlib import Path

import pytest

from miniqueue.storage.leveldb.shards import stores_in
from tests.acceptance.process import COMMAND, FREE_PORTS, BrokerProcess
from tests.acceptance.telnet import publish

pytestmark = pytest.mark.acceptance

#: Every client that connects sees them, and clients that are to trust them get copies.
PUBLIC = {"certs/ca.pem", "certs/localhost.pem"}


def modes(directory: Path) -> dict[str, int]:
    return {str(path.relative_to(directory)): path.stat().st_mode & 0o777 for path in directory.rglob("*")}


def test_files_are_0600_and_directories_0700(tmp_path):
    shell = ["sh", "-c", 'umask 000; exec "$@"', "sh", *COMMAND]
    broker = BrokerProcess(FREE_PORTS, cwd=tmp_path, command=shell)
    try:
        publish(broker.wait_until_ready().resp_port, "orders", "1")
        broker.stop()
    finally:
        broker.end()
    found = modes(tmp_path)
    expected = {name: 0o700 if (tmp_path / name).is_dir() else 0o644 if name in PUBLIC else 0o600 for name in found}
    assert all((store / "db/CURRENT").exists() for store in stores_in(tmp_path / "data"))
    assert found == expected
