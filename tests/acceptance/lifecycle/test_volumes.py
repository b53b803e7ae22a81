"""A broker with an unprivileged account, on volumes that belong to others: it starts, or the line says what helps."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.process import COMMAND, FREE_PORTS, START_SECONDS, BrokerProcess, environment
from tests.acceptance.tools import needs

UID = 10001
FS_GROUP = 2000


def as_uid(uid: int) -> list[str]:
    """Return the command of a broker that runs as this user, in the group of the volume as well."""
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", f"--groups={FS_GROUP}", *COMMAND]


pytestmark = [
    pytest.mark.acceptance,
    needs("setpriv"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a broker as another user"),
]


@pytest.fixture
def volume() -> Iterator[Path]:
    """An empty directory of root; not in `tmp_path`, which other users cannot enter."""
    directory = Path(tempfile.mkdtemp(prefix="miniqueue-volume-"))
    directory.chmod(0o755)
    try:
        version = subprocess.run([*as_uid(UID), "-version"], cwd=directory, capture_output=True, check=False)
        if version.returncode:
            pytest.skip("another user cannot read this Python or the sources")
        yield directory
    finally:
        shutil.rmtree(directory)


def mount_with_fs_group(volume: Path) -> None:
    """Change groups and modes as the kubelet does at each mount of a volume with `fsGroup`."""
    for path in [volume, *volume.rglob("*")]:
        os.chown(path, -1, FS_GROUP)
        path.chmod(path.stat().st_mode | (0o2070 if path.is_dir() else 0o060))


def run_as_uid(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*as_uid(UID), *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )


def refusal(*arguments: str, cwd: Path, code: int) -> str:
    done = run_as_uid(*FREE_PORTS, *arguments, cwd=cwd)
    assert done.returncode == code, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("miniqueue: ")]
    return line


def start_and_stop(*arguments: str, cwd: Path, uid: int = UID) -> str:
    broker = BrokerProcess([*FREE_PORTS, *arguments], cwd=cwd, command=as_uid(uid))
    try:
        broker.wait_until_ready().stop()
    finally:
        broker.end()
    return broker.output


def test_a_volume_with_an_fs_group_is_accepted_at_each_mount(volume):
    mount_with_fs_group(volume)
    added = run_as_uid("user", "add", "-users=users.toml", "-admin=*", "-token-file=admin.token", "ada", cwd=volume)
    assert added.returncode == 0, added.stderr
    for _ in range(2):
        start_and_stop("-users=users.toml", cwd=volume)
        mount_with_fs_group(volume)
    log = start_and_stop("-users=users.toml", cwd=volume)
    for name in ("data", "users.toml", "certs/localhost-key.pem", "certs/ca-key.pem"):
        assert (volume / name).stat().st_mode & 0o077 == 0
        assert f"{name}: its group could write to it" in log
    assert {path.stat().st_mode & 0o077 for path in (volume / "data").rglob("*")} == {0}


def test_a_store_in_the_root_of_such_a_volume_is_accepted_with_a_warning(volume):
    mount_with_fs_group(volume)
    db, flags = volume / "store", ("-storage=memory",)
    start_and_stop(*flags, cwd=volume)  # makes the certificates
    db.mkdir()
    for _ in range(2):
        mount_with_fs_group(volume)
        assert f"others in group {FS_GROUP} can write to" in start_and_stop(f"-db={db}", cwd=volume)


def test_another_user_in_the_group_of_the_volume_can_go_on_with_the_store(volume):
    mount_with_fs_group(volume)
    start_and_stop(cwd=volume)
    for uid in (UID + 1, UID):
        mount_with_fs_group(volume)
        assert f"others in group {FS_GROUP} can write to data" in start_and_stop(cwd=volume, uid=uid)


def test_an_empty_volume_of_another_user_is_named_and_not_the_certificate(volume):
    line = refusal(cwd=volume, code=71)
    assert f"flag -db: data cannot be written by uid {UID}" in line
    assert f"{volume} belongs to uid 0" in line
    assert "--user" in line
    assert "certificate" not in line
    assert list(volume.iterdir()) == []


def test_a_key_that_cannot_be_read_is_named_with_the_uid_that_tried(volume, trust):
    mount_with_fs_group(volume)
    _, cert, _, key = trust.flags
    shutil.copy(cert, volume / "cert.pem")
    shutil.copy(key, volume / "key.pem")
    (volume / "key.pem").chmod(0o600)
    line = refusal("-cert=cert.pem", "-key=key.pem", cwd=volume, code=77)
    assert f"key key.pem: permission denied for uid {UID}; it belongs to uid 0 (mode 600)" in line
    assert "--user" in line


def test_a_fifo_in_place_of_a_certificate_or_the_users_is_refused_at_once(volume, trust):
    mount_with_fs_group(volume)
    os.mkfifo(volume / "fifo")
    (volume / "fifo").chmod(0o644)
    _, cert, _, key = trust.flags
    for name, path in (("cert.pem", cert), ("key.pem", key)):
        shutil.copy(path, volume / name)
        (volume / name).chmod(0o644)
    for flags, code in (
        (["-cert=fifo", "-key=key.pem"], 77),
        (["-cert=cert.pem", "-key=fifo"], 77),
        (["-users=fifo"], 78),
    ):
        assert "fifo: it is not a regular file" in refusal(*flags, cwd=volume, code=code)
