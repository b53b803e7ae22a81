"""The image, really built and run: `make image-test`, as root, with what tests.containers.podman names.

Containers have a read-only root, no capabilities, and no way to new ones.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from miniqueue import __version__
from tests.acceptance.process import ROOT
from tests.acceptance.tools import needs
from tests.containers.podman import BUILD_SECONDS, PROGRAMS, Container, Containers
from tests.serving import make_certificates

pytestmark = [needs(*PROGRAMS), pytest.mark.timeout(3 * BUILD_SECONDS)]

IMAGE = "miniqueue:test"
PASSWORD = "a long secret"
WITH_PASSWORD = f"--env=MINIQUEUE_PASSWORD={PASSWORD}"
VOLUME = "/var/lib/miniqueue"

Start = Callable[..., Container]


@pytest.fixture(scope="module")
def containers() -> Iterator[Containers]:
    directory = Path(tempfile.mkdtemp(prefix="miniqueue-containers-"))
    containers = Containers(directory)
    try:
        yield containers
    finally:
        containers.podman("system", "reset", "--force")
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def layers(containers: Containers) -> list[str]:
    return containers.build(IMAGE, "--no-cache")


@pytest.fixture
def start(containers: Containers, layers: list[str]) -> Iterator[Start]:
    """Start brokers; all are removed at the end."""
    started: list[Container] = []

    def begin(*words: str) -> Container:
        started.append(containers.start(*words))
        return started[-1]

    yield begin
    for container in started:
        container.remove()


def test_two_builds_are_the_same_byte_for_byte(containers, layers):
    assert containers.build("miniqueue:again", "--no-cache") == layers


def test_a_change_of_the_code_changes_the_last_layers_only(containers, layers, tmp_path):
    for name in ("Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("miniqueue", "client", ".ci"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "miniqueue/__init__.py").open("a") as file:
        file.write("# changed\n")
    changed = containers.build("miniqueue:changed", context=tmp_path)
    differs = [before != after for before, after in zip(layers, changed, strict=True)]
    assert differs == sorted(differs)
    assert differs.count(True) == 1, "only that of miniqueue"


def test_labels_and_the_bill_of_materials_say_what_it_is(containers, layers):
    labels = containers.inspect(IMAGE)["Labels"]
    assert labels["org.opencontainers.image.version"] == __version__
    bill = containers.run("--entrypoint=cat", IMAGE, "/opt/miniqueue/share/miniqueue/sbom.cdx.json").stdout
    assert {"miniqueue"} | {part["name"] for part in json.loads(bill)["components"]} >= {
        "plyvel",
        "uvloop",
        "hypercorn",
    }
    listed = containers.run("--entrypoint=ls", IMAGE, "/opt/miniqueue/lib/python3.11/site-packages").stdout
    assert "plyvel" in listed
    assert "pip" not in listed.split()


def test_without_a_password_it_refuses_and_names_both_ways(containers, layers):
    done = containers.run(IMAGE)
    assert done.returncode == 78
    assert "MINIQUEUE_PASSWORD" in done.stderr
    assert "-insecure" in done.stderr


@pytest.mark.parametrize("user", [(), ("--user=1234567:0",), ("--user=1234567",)])
def test_any_uid_with_group_0_keeps_its_messages_through_kill_9(containers, start, user):
    volume = containers.podman("volume", "create").strip()
    options = (f"--volume={volume}:{VOLUME}", WITH_PASSWORD, *user)
    first = start(*options, IMAGE)
    assert first.ask(PASSWORD, "PUBLISH", "orders", "hello") == "b'OK'"
    assert first.fails("touch", "/opt/miniqueue/x")
    status = first.execute("cat", "/proc/1/status")
    assert "CapEff:\t0000000000000000" in status
    assert f"Uid:\t{'1234567' if user else '10001'}" in status
    first.signal("KILL")
    first.remove()
    second = start(*options, IMAGE)
    assert second.ask(PASSWORD, "LEN", "orders") == "1"
    assert second.stop() == 0
    containers.podman("volume", "rm", "--force", volume)


def test_a_secret_in_a_file_is_the_password(containers, start, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("from a file\n")
    tmp_path.chmod(0o755)
    broker = start(
        f"--volume={secret}:/run/secrets/password:ro", "--env=MINIQUEUE_PASSWORD_FILE=/run/secrets/password", IMAGE
    )
    assert broker.ask("from a file", "PING") == "b'PONG'"


def test_the_line_of_the_go_program_works_with_a_password(start, tmp_path):
    made = make_certificates(tmp_path / "certs")
    made.key.chmod(0o640)  # root's, and so of group 0
    made.cert.rename(tmp_path / "certs/localhost.pem")
    made.key.rename(tmp_path / "certs/localhost-key.pem")
    (tmp_path / "certs").chmod(0o755)
    mounted = f"--volume={tmp_path}/certs:/etc/miniqueue/certs"
    certificates = "/etc/miniqueue/certs/localhost"
    flags = ("-cert", f"{certificates}.pem", "-key", f"{certificates}-key.pem", "-db", VOLUME, "-human")
    broker = start(mounted, WITH_PASSWORD, IMAGE, *flags)
    assert broker.ask(PASSWORD, "PUBLISH", "orders", "hello") == "b'OK'"
    assert broker.stop() == 0


def test_a_tool_in_the_container_has_the_password(start):
    broker = start(WITH_PASSWORD, IMAGE)
    assert broker.ask(PASSWORD, "PUBLISH", "orders", "hello") == "b'OK'"
    assert '"text":"hello"' in broker.execute("miniqueue", "export", "orders")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_health_check_is_about_life_and_cheap(start, host):
    broker = start(WITH_PASSWORD, f"--env=MINIQUEUE_MONITOR_HOST={host}", IMAGE)
    broker.execute("/opt/miniqueue/bin/health")
    check = cpu_ms(broker, "/opt/miniqueue/bin/health")
    python = cpu_ms(broker, "python3 -c 'import ssl, urllib.request'")
    print(f"\nhealth check of {host}: {check:.1f} ms of CPU; importing what Python needs for it: {python:.1f} ms")
    assert check < python / 3
    broker.signal("STOP")
    assert broker.fails("/opt/miniqueue/bin/health")
    broker.signal("CONT")
    broker.execute("/opt/miniqueue/bin/health")


def cpu_ms(container: Container, command: str, count: int = 20) -> float:
    """Return the CPU time of a command, in ms: that of `count` runs, by bash."""
    script = f"for ((n = 0; n < {count}; n++)); do {command}; done; cat /proc/$$/stat"
    fields = container.execute("bash", "-c", script).rpartition(")")[2].split()
    return sum(map(int, fields[13:15])) * 10 / count  # ticks of 10 ms; of children that have ended


def test_plyvel_is_compiled_where_it_has_no_wheel(containers, layers, start):
    containers.build("miniqueue:compiled", "--build-arg=SOURCES=plyvel")
    broker = start(WITH_PASSWORD, "miniqueue:compiled")
    assert broker.ask(PASSWORD, "PUBLISH", "orders", "hello") == "b'OK'"
    assert "/opt/miniqueue/lib/libleveldb.so.1d" in broker.execute("cat", "/proc/1/maps")
    assert broker.stop() == 0
