"""The Dockerfile as it stands, and its health check against a real broker; `make image-test` builds and runs it."""

import os
import re
import signal
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from miniqueue import __version__
from tests.acceptance.process import FREE_PORTS, ROOT, BrokerProcess, Trust, environment
from tests.containers.dockerfile import Step, read_steps

STEPS = read_steps(ROOT / "Dockerfile")
VOLUME = "/var/lib/miniqueue"
HEALTH = ROOT / ".ci/image-health"


def the(word: str) -> Step:
    """Return the only instruction of that kind in the last stage."""
    (step,) = [step for step in STEPS if step.word == word and step.stage == STEPS[-1].stage]
    return step


def is_in_context(path: str) -> bool:
    """Apply the rules of .dockerignore, of which the last that fits counts."""
    is_kept = True
    for rule in (ROOT / ".dockerignore").read_text().splitlines():
        if rule and not rule.startswith("#") and fnmatch(path, rule.removeprefix("!")):
            is_kept = rule.startswith("!")
    return is_kept


def test_all_stages_start_from_the_same_base_which_can_be_another():
    assert STEPS[0].word == "ARG"
    assert STEPS[0].rest == "BASE=python:3.11-slim-bookworm"
    assert [step.rest for step in STEPS if step.word == "FROM"] == [
        "${BASE} AS packages",
        "packages AS miniqueue",
        "${BASE}",
    ]


def test_it_runs_as_a_number_and_any_uid_with_group_0_may_write_to_the_volume():
    runs = [step.rest for step in STEPS if step.word == "RUN" and step.stage == STEPS[-1].stage]
    assert the("USER").rest == "10001:0"
    assert f"install --directory --owner 10001 --group 0 --mode 0770 {VOLUME}" in runs
    assert the("VOLUME").rest == VOLUME
    assert the("WORKDIR").rest == VOLUME
    assert the("EXPOSE").rest == "8080 6379 8081"
    assert "MINIQUEUE_HOST=0.0.0.0" in the("ENV").rest


def test_what_changes_most_is_copied_last():
    copied = [step.rest for step in STEPS if step.word == "COPY" and step.stage == STEPS[-1].stage]
    assert copied == [
        ".ci/image-health /opt/miniqueue/bin/health",
        "--from=packages /opt/miniqueue /opt/miniqueue",
        "--from=miniqueue /own/ /",
    ]


def test_no_step_takes_a_new_builder_or_depends_on_times():
    assert not any("--mount" in step.rest or "--chmod" in step.rest for step in STEPS)
    compiled = [step.rest for step in STEPS if "compileall" in step.rest]
    assert len(compiled) == 3
    assert all("--invalidation-mode unchecked-hash" in step for step in compiled)


def test_all_packages_come_from_the_locks():
    (packages,) = [step.rest for step in STEPS if "--requirement .ci/locks/broker.lock" in step.rest]
    assert "--require-hashes" in packages
    (build,) = [step.rest for step in STEPS if "--requirement .ci/locks/build.lock" in step.rest]
    assert "--require-hashes" in build


def test_the_context_holds_what_is_copied_and_no_messages_keys_or_tests():
    copied = [step.rest.split() for step in STEPS if step.word == "COPY" and "--from" not in step.rest]
    for *sources, _target in copied:
        for source in sources:
            assert is_in_context(source), f"{source} is kept out by .dockerignore"
            assert (ROOT / source).exists()
    for path in (".git", ".venv", "data", "certs", "tests", "miniqueue/core/__pycache__"):
        assert not is_in_context(path), path


def test_the_labels_are_those_of_this_version():
    labels = dict(re.findall(r'org\.opencontainers\.image\.([\w.]+)="([^"]*)"', the("LABEL").rest))
    assert labels["version"] == __version__
    assert {"title", "description", "licenses", "revision", "base.name"} <= set(labels)


def test_the_health_check_is_the_program_that_is_copied():
    assert the("HEALTHCHECK").rest.startswith("--interval=10s --timeout=3s --start-period=30s CMD [")
    assert the("HEALTHCHECK").json() == ["/opt/miniqueue/bin/health"]
    assert HEALTH.stat().st_mode & 0o111 == 0o111


@pytest.mark.acceptance
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "127.0.0.2"])
def test_the_health_check_fails_unless_the_broker_answers(trust: Trust, tmp_path: Path, host: str):
    variables = {"MINIQUEUE_MONITOR_HOST": host, "MINIQUEUE_PASSWORD": "a long secret"}
    flags = [*FREE_PORTS, *trust.flags, "-storage", "memory"]
    broker = BrokerProcess(flags, cwd=tmp_path, env=environment(**variables))
    try:
        variables["MINIQUEUE_MONITOR_PORT"] = str(broker.wait_until_ready().monitor_port)
        assert health(variables) == 0
        broker.process.send_signal(signal.SIGSTOP)
        assert health(variables) != 0
        broker.process.send_signal(signal.SIGCONT)
        assert health(variables) == 0
        broker.stop()
    finally:
        broker.end()
    assert health(variables) != 0


def health(variables: dict[str, str]) -> int:
    return subprocess.run(
        [HEALTH], env={"PATH": os.environ["PATH"]} | variables, capture_output=True, check=False
    ).returncode
