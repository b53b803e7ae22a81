"""Images and containers of this project, made with buildah, podman, and runc, in a store of their own.

No registry can be reached, so the base is made of Debian's packages under the name of the Dockerfile's base, and kept
in the user's cache. As in Python's own images, its modules are not compiled. Containers have no network: what is said
to a broker is said by a process in its container.
"""

import json
import os
import resource
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.acceptance.process import ROOT, START_SECONDS

BASE = "docker.io/library/python:3.11-slim-bookworm"
BASE_PACKAGES = "python3,python3-venv,libpython3.11-dev,ca-certificates"
PROGRAMS = ("buildah", "podman", "runc", "mmdebstrap")
BUILD_SECONDS = 900
#: Where this machine says which registry and which certificates to use; a build in the container needs them too.
SETTINGS_OF_MACHINE = ("/etc/pip.conf", "/etc/ssl/certs")
#: What the page on containers has for a broker without any rights.
WITHOUT_RIGHTS = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges")


def run(*command: str, env: dict[str, str] | None = None, seconds: float = BUILD_SECONDS) -> str:
    """Run a program that must succeed; return its output."""
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-5000:]}{done.stderr[-5000:]}"
    return done.stdout


def make_base() -> Path:
    """Return the archive of the base, which is made when it is missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "miniqueue"
    archive = cache / "base-bookworm-2.tar"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = archive.with_suffix(".unfinished.tar")
        uncompiled = '--customize-hook=find "$1/usr/lib/python3.11" -name "*.pyc" -delete'
        run("mmdebstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", uncompiled, "bookworm", str(unfinished))
        unfinished.rename(archive)
    return archive


class Containers:
    """A store of images and containers.

    Args:
      directory: its directory; not below another container's, which overlays do not allow.
    """

    def __init__(self, directory: Path) -> None:
        config = directory / "storage.conf"
        config.write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{directory}/root"\nrunroot = "{directory}/run"\n'
        )
        self._env = os.environ | {"CONTAINERS_STORAGE_CONF": str(config)}
        self.podman("import", "--quiet", str(make_base()), BASE)

    def podman(self, *words: str) -> str:
        return run(*self._podman(words), env=self._env)

    def build(self, tag: str, *options: str, context: Path = ROOT) -> list[str]:
        """Build the image; return the digests of its layers."""
        shared = [f"--volume={path}:{path}:ro" for path in SETTINGS_OF_MACHINE if Path(path).exists()]
        how = ("--isolation=chroot", "--network=host", "--pull-never", "--format=docker", "--timestamp=0", "--layers")
        run("buildah", "bud", *how, *shared, *options, f"--tag={tag}", str(context), env=self._env)
        layers: list[str] = self.inspect(tag)["RootFS"]["Layers"]
        return layers

    def inspect(self, tag: str) -> dict[str, Any]:
        """Return what is known of an image."""
        (image,) = json.loads(self.podman("image", "inspect", tag))
        assert isinstance(image, dict)
        return image

    def attempt(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run podman, which may fail."""
        command = self._podman(words)
        return subprocess.run(
            command, env=self._env, capture_output=True, text=True, timeout=START_SECONDS, check=False
        )

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a container to its end; the words are options, the image, and flags."""
        return self.attempt("run", "--rm", *_OPTIONS, *WITHOUT_RIGHTS, *words)

    def start(self, *words: str) -> "Container":
        """Start a container with a broker, and wait until it is ready."""
        name = self.podman("run", "--detach", *_OPTIONS, *WITHOUT_RIGHTS, *words).strip()
        container = Container(self, name)
        container.wait_until_ready()
        return container

    def _podman(self, words: Sequence[str]) -> list[str]:
        return ["podman", "--runtime=runc", "--cgroup-manager=cgroupfs", *words]


def _limits() -> tuple[str, ...]:
    # podman asks for more than a container on this machine may have.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    count = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    return (f"--ulimit=nofile={count}:{count}", "--ulimit=nproc=4096:4096")


_OPTIONS = ("--network=none", "--no-healthcheck", *_limits())  # podman's own timer of the check takes systemd


#: Asks for what the words after the first, a secret, say.
_ASK = """
import sys
from miniqueue_client import Client
from miniqueue_client.calls.call import Call
with Client("redis://127.0.0.1", password=sys.argv[1]) as client:
    print(client.execute(Call(tuple(sys.argv[2:]), lambda reply: reply)))
"""


class Container:
    """A container with a broker in it."""

    def __init__(self, containers: Containers, name: str) -> None:
        self._containers = containers
        self._name = name

    def wait_until_ready(self) -> None:
        end = time.monotonic() + START_SECONDS
        while "ready" not in self.log():
            assert self.is_running(), self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.1)  # podman has nothing that waits for a line of the log

    def is_running(self) -> bool:
        return self._containers.podman("inspect", "--format={{.State.Running}}", self._name).strip() == "true"

    def log(self) -> str:
        """Return what the broker has said."""
        done = self._containers.attempt("logs", self._name)
        return done.stdout + done.stderr

    def execute(self, *words: str) -> str:
        """Run a program in the container that must succeed."""
        return self._containers.podman("exec", self._name, *words)

    def fails(self, *words: str) -> bool:
        """Whether a program in the container fails."""
        return self._containers.attempt("exec", self._name, *words).returncode != 0

    def ask(self, secret: str, *words: str) -> str:
        """Return what the broker answers to a command, as Python shows it."""
        return self.execute("/opt/miniqueue/bin/python3", "-c", _ASK, secret, *words).strip()

    def signal(self, name: str) -> None:
        self._containers.podman("kill", f"--signal={name}", self._name)

    def stop(self) -> int:
        """Stop the broker; return its exit code."""
        self._containers.podman("stop", "--time=30", self._name)
        return int(self._containers.podman("inspect", "--format={{.State.ExitCode}}", self._name))

    def remove(self) -> None:
        self._containers.podman("rm", "--force", "--time=0", self._name)
