"""A start that cannot be: one clear line for each problem, the documented exit code, and nothing else."""

import os
import socket
from pathlib import Path

import pytest

from miniqueue.storage.leveldb.shards import stores_in
from tests.acceptance.process import FREE_PORTS, run_to_end

pytestmark = pytest.mark.acceptance


def refusal(*arguments: str, cwd: Path, code: int, variables: dict[str, str] | None = None) -> list[str]:
    """Start what cannot start; return what it says about problems."""
    done = run_to_end(*arguments, cwd=cwd, variables=variables)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "Traceback" not in done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("miniqueue: ")]


@pytest.mark.parametrize("flag", ["-port", "-resp-port", "-monitor-port"])
def test_a_port_in_use_is_69_and_leaves_the_store_alone(trust, tmp_path, flag):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        (line,) = refusal(*FREE_PORTS, *trust.flags, flag, port, cwd=tmp_path, code=69)
    assert f"127.0.0.1:{port}: Address already in use" in line
    assert not (tmp_path / "data").exists()


def test_an_address_that_is_not_ours_is_69(trust, tmp_path):
    (line,) = refusal(*FREE_PORTS, *trust.flags, "-host", "192.0.2.1", "-insecure", cwd=tmp_path, code=69)
    assert "192.0.2.1:0: Cannot assign requested address" in line


def test_to_listen_elsewhere_without_users_is_78_and_touches_nothing(tmp_path):
    (line,) = refusal(*FREE_PORTS, "-host", "0.0.0.0", cwd=tmp_path, code=78)
    assert "-insecure" in line
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_others_may_write_to_is_78_and_is_not_touched(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o777)
    (line,) = refusal(*FREE_PORTS, cwd=tmp_path, code=78)
    assert "data is writable by other users (mode 777)" in line
    assert [path.name for path in tmp_path.rglob("*")] == ["data"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_file_of_another_user_in_the_store_is_78_and_is_named(trust, start_broker, tmp_path):
    start_broker("data").stop()
    file = stores_in(tmp_path / "data")[-1] / "db/CURRENT"
    os.chown(file, 10001, -1)
    (line,) = refusal(*FREE_PORTS, *trust.flags, cwd=tmp_path, code=78)
    assert f"{file} belongs to uid 10001" in line


def test_a_default_that_no_topic_can_have_is_78_and_makes_no_store(trust, tmp_path):
    (tmp_path / "c.toml").write_text("""[defaults."orders.*"]\nschema = {type = "what"}\n""")
    (line,) = refusal(*FREE_PORTS, *trust.flags, "-config", "c.toml", cwd=tmp_path, code=78)
    assert "the defaults of new topics: schema must be a JSON Schema: " in line
    assert not (tmp_path / "data").exists()


def test_a_store_in_use_is_73_and_its_owner_goes_on(trust, start_broker, tmp_path):
    owner = start_broker("data")
    (line,) = refusal(*FREE_PORTS, *trust.flags, cwd=tmp_path, code=73)
    assert "flag -db: data is in use by" in line
    assert str(owner.process.pid) in line
    assert owner.monitor("/readyz")
    owner.stop()


def test_a_directory_with_something_else_is_65_and_stays_as_it_was(trust, tmp_path):
    (tmp_path / "data").mkdir(0o700)
    (tmp_path / "data" / "holiday.jpg").write_bytes(b"beach")
    (line,) = refusal(*FREE_PORTS, *trust.flags, cwd=tmp_path, code=65)
    assert "flag -db: data is neither empty nor a miniqueue store" in line
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["holiday.jpg"]


def test_a_damaged_store_is_65_and_the_line_names_the_file(trust, start_broker, tmp_path):
    start_broker("data").stop()
    (manifest,) = stores_in(tmp_path / "data")[-1].rglob("MANIFEST-*")
    damaged = bytearray(manifest.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    manifest.write_bytes(damaged)
    (line,) = refusal(*FREE_PORTS, *trust.flags, cwd=tmp_path, code=65)
    assert manifest.name in line


def test_a_store_of_another_format_is_65(trust, start_broker, tmp_path):
    start_broker("data").stop()
    file = stores_in(tmp_path / "data")[-1] / "miniqueue.format"
    file.write_text("miniqueue store, format 999\n")
    (line,) = refusal(*FREE_PORTS, *trust.flags, cwd=tmp_path, code=65)
    assert f"flag -db: {file.relative_to(tmp_path)}: format version 999 found" in line


def test_a_certificate_that_cannot_be_read_is_77(trust, tmp_path):
    (tmp_path / "cert.pem").mkdir()  # root, too, cannot read it as a file
    key = trust.flags[3]
    (line,) = refusal(*FREE_PORTS, "-cert", "cert.pem", "-key", key, cwd=tmp_path, code=77)
    assert "flag -cert: certificate cert.pem: Is a directory" in line


def test_half_a_pair_of_certificates_is_77(tmp_path):
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "localhost.pem").write_text("mine")
    (line,) = refusal(*FREE_PORTS, cwd=tmp_path, code=77)
    assert "flags -cert, -key: certs/localhost.pem exists, but certs/localhost-key.pem is missing" in line


def test_all_bad_settings_are_reported_at_once_with_78(tmp_path):
    (tmp_path / "settings.toml").write_text('colour = "blue"\nport = "many"\n')
    lines = refusal(
        *("-config", "settings.toml", "-period", "soon", "-level=loud", "-nonsense"),
        cwd=tmp_path,
        code=78,
        variables={"MINIQUEUE_SYNC": "maybe"},
    )
    for word in ("colour", "many", "soon", "loud", "nonsense", "maybe"):
        assert any(word in line for line in lines), f"{word} is missing in {lines}"
    assert list(tmp_path.iterdir()) == [tmp_path / "settings.toml"]


def test_a_settings_file_that_is_not_there_is_78(tmp_path):
    (line,) = refusal("-config", "missing.toml", cwd=tmp_path, code=78)
    assert "missing.toml" in line


def test_variables_of_a_kubernetes_service_are_ignored_with_a_line_in_the_log(trust, tmp_path):
    (tmp_path / "data").mkdir(0o700)
    (tmp_path / "data" / "holiday.jpg").write_bytes(b"beach")
    variables = {"MINIQUEUE_PORT": "tcp://10.96.0.12:8080", "MINIQUEUE_SERVICE_HOST": "10.96.0.12"}
    done = run_to_end(*FREE_PORTS, *trust.flags, cwd=tmp_path, variables=variables)
    assert done.returncode == 65, done.stderr  # got as far as the store
    assert "variables of a Kubernetes Service ignored" in done.stderr
    assert "MINIQUEUE_PORT, MINIQUEUE_SERVICE_HOST" in done.stderr
