"""The Dockerfile's own steps, carried out in a directory that stands for the image's root.

What needs Docker is looked at only: the base image, the user, the volume. What is copied must be in the build
context; the commands of RUN, HEALTHCHECK and ENTRYPOINT are really executed, with paths moved below that directory.
"""

import os
import re
import shutil
import stat
import subprocess
import venv
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.acceptance.dockerfile import Step, read_steps
from tests.acceptance.process import BrokerProcess, environment
from tests.acceptance.telnet import publish

ROOT = Path(__file__).parents[3]
STEPS = read_steps(ROOT / "Dockerfile")
VOLUME = "/var/lib/miniqueue"
#: In place of the fixed ports, which may be in use on this machine.
PORTS = {"MINIQUEUE_PORT": "0", "MINIQUEUE_RESP_PORT": "0", "MINIQUEUE_MONITOR_PORT": "0"}

#: The image is made with pip, which takes a while on a busy machine.
pytestmark = [pytest.mark.acceptance, pytest.mark.slow, pytest.mark.timeout(400)]


def the(word: str) -> Step:
    """Return the only instruction of that kind in the last stage."""
    (step,) = [step for step in STEPS if step.word == word and step.stage == STEPS[-1].stage]
    return step


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root directory of an image in which COPY and the RUNs of pip have been carried out."""
    root = tmp_path_factory.mktemp("image")
    venv.create(root / "venv", with_pip=True)  # the Python of the base image
    directory = root
    for step in STEPS:
        if step.word == "WORKDIR":
            directory = root / step.rest.lstrip("/")
            directory.mkdir(parents=True, exist_ok=True)
        elif step.word == "COPY":
            copy(step.rest.split(), directory)
        elif step.word == "RUN" and "pip " in step.rest:
            run_in(root, re.sub(r"^--mount=\S+ ", "", step.rest), directory)
    return root


def copy(words: list[str], directory: Path) -> None:
    """Copy from the build context, which holds what .dockerignore lets in."""
    *sources, target = words
    for source in sources:
        assert is_in_context(source), f"{source} is kept out by .dockerignore"
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, directory / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, directory / target)


def is_in_context(path: str) -> bool:
    """Apply the rules of .dockerignore, of which the last that fits counts."""
    is_kept = True
    for rule in (ROOT / ".dockerignore").read_text().splitlines():
        if rule and not rule.startswith("#") and fnmatch(path, rule.removeprefix("!")):
            is_kept = rule.startswith("!")
    return is_kept


def run_in(root: Path, command: str, directory: Path) -> None:
    """Run a command of the image with its Python, and its absolute paths below `root`."""
    moved = command.replace(" /wheels", f" {root}/wheels")
    path = f"{root}/venv/bin:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", moved],
        cwd=directory,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def variables() -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in the("ENV").rest.split())


def test_both_stages_start_from_the_same_python():
    bases = {step.rest.split(" AS ")[0] for step in STEPS if step.word == "FROM"}
    assert bases == {"python:3.11-slim-bookworm"}


def test_it_runs_as_a_user_who_owns_the_volume_and_nothing_else():
    (user,) = [step.rest for step in STEPS if step.word == "RUN" and "useradd" in step.rest]
    assert the("USER").rest == "miniqueue"
    assert f"--owner miniqueue --group miniqueue --mode 700 {VOLUME}" in user
    assert the("VOLUME").rest == VOLUME
    assert the("WORKDIR").rest == VOLUME
    assert the("EXPOSE").rest == "8080 6379 8081"


def test_the_context_holds_no_messages_keys_or_tests():
    for path in (".git", ".venv", "data", "certs", "tests", "miniqueue/core/__pycache__"):
        assert not is_in_context(path), path


def test_the_entrypoint_serves_all_interfaces_and_keeps_everything_in_the_volume(image):
    volume = image / VOLUME.lstrip("/")
    (command,) = the("ENTRYPOINT").json()
    env = environment(**variables(), **PORTS)
    flags = ["-level", "info", "-insecure"]
    broker = BrokerProcess(flags, cwd=volume, command=[f"{image}/venv/bin/{command}"], env=env)
    try:
        broker.wait_until_ready()
        publish(broker.resp_port, "orders", "1")
        assert listens_everywhere(broker.resp_port)
        assert listens_everywhere(broker.https_port)
        assert not listens_everywhere(broker.monitor_port)
        assert health(image, broker.monitor_port) == 0
        broker.stop()
    finally:
        broker.end()
    assert sorted(path.name for path in volume.iterdir()) == ["certs", "data"]
    assert stat.S_IMODE((volume / "certs" / "localhost-key.pem").stat().st_mode) == 0o600
    assert health(image, broker.monitor_port) != 0


def listens_everywhere(port: int) -> bool:
    """Tell whether a listener has the wildcard address, by the kernel's table."""
    addresses = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return f"00000000:{port:04X}" in addresses


@pytest.mark.parametrize(("name", "is_open"), [("0.0.0.0", True), ("127.0.0.2", False)])
def test_the_health_check_reaches_monitoring_on_another_address(image, trust, tmp_path, name, is_open):
    (command,) = the("ENTRYPOINT").json()
    host = {"MINIQUEUE_MONITOR_HOST": name}
    env = environment(**variables(), **PORTS, **host)
    flags = ["-insecure", "-storage", "memory", *trust.flags]
    broker = BrokerProcess(flags, cwd=tmp_path, command=[f"{image}/venv/bin/{command}"], env=env)
    try:
        broker.wait_until_ready()
        assert listens_everywhere(broker.monitor_port) is is_open
        assert health(image, broker.monitor_port, **host) == 0
        broker.stop()
    finally:
        broker.end()


def health(image: Path, port: int, **variables: str) -> int:
    """Run the health check and return its exit code."""
    assert the("HEALTHCHECK").rest.startswith("--interval=10s --timeout=3s --start-period=30s CMD [")
    program, *arguments = the("HEALTHCHECK").json()
    env = environment(MINIQUEUE_MONITOR_PORT=str(port), **variables)
    return subprocess.run(
        [f"{image}/venv/bin/{program}", *arguments], env=env, capture_output=True, check=False
    ).returncode


def test_the_image_holds_miniqueue_and_not_its_tools(image):
    listed = subprocess.run(
        [f"{image}/venv/bin/pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
    ).stdout
    assert "miniqueue==" in listed
    assert "pytest" not in listed
