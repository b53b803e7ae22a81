"""The applications that are the ceilings of HTTP answer as miniqueue does, those that sync when they have synced."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import noop, servers
from miniqueue.errors import StorageError
from miniqueue.server.security.certificates import ensure_certificates
from tests.acceptance.tools import needs, run


@pytest.mark.acceptance
@pytest.mark.slow
@needs("curl")
@pytest.mark.parametrize("flags", [(), ("--sync",), ("--sync", "--granian")], ids=" ".join)
def test_every_request_is_answered(tmp_path: Path, flags: tuple[str, ...]):
    certificate, key, now = tmp_path / "localhost.pem", tmp_path / "localhost-key.pem", datetime.now(UTC)
    ensure_certificates(certificate, key, may_create=True, now=now)
    with servers.noop(tmp_path, *flags) as server:
        url, trusted = f"https://localhost:{server.port}/", str(tmp_path / "ca.pem")
        said = run(["curl", "-sS", "--http2", "--cacert", trusted, "-d", "x", "-w", "%{http_code}\n", url, url])
    assert said == b"201\n201\n"
    assert (tmp_path / "synced").exists() == ("--sync" in flags)


async def test_those_who_wait_together_share_a_sync(tmp_path: Path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fdatasync", synced.append)

    disk = noop.Disk(tmp_path / "synced")
    await asyncio.gather(*(disk.wait() for _ in range(12)))
    assert len(synced) == 1
    await disk.wait()
    assert len(synced) == 2


async def test_a_disk_that_failed_is_no_answer(tmp_path: Path, monkeypatch):
    def fail(fd: int) -> None:
        raise OSError("no disk")

    monkeypatch.setattr(os, "fdatasync", fail)

    disk = noop.Disk(tmp_path / "synced")
    for _ in range(2):
        with pytest.raises(StorageError, match="no disk"):
            await disk.wait()
