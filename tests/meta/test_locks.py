"""The lock files hold what pyproject.toml asks for, with hashes, for every Python and machine that we support."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.meta.modules import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
CLIENT = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKS = sorted((ROOT / ".ci/locks").glob("*.lock"))
#: For an environment of its own; all others may be installed together.
APART = "tools"
#: Debian 12 has the first; redis needs more on it than on later ones.
PYTHONS = ("3.11.2", "3.11.14", "3.12.12")
MACHINES = ("x86_64", "aarch64")


def locked(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return version and hashes of each package in a lock file."""
    text = (ROOT / f".ci/locks/{name}.lock").read_text()
    blocks = re.findall(r"^([\w.-]+)==(\S+) \\\n((?:    --hash=\S+(?: \\)?\n)+)", text, re.MULTILINE)
    assert len(blocks) == len(re.findall(r"^[^\s#]", text, re.MULTILINE)), "a line without a version or a hash"
    return {name: (version, frozenset(re.findall(r"sha256:([0-9a-f]{64})", rest))) for name, version, rest in blocks}


def asked_for(name: str) -> list[Requirement]:
    """Return what a lock file is made from."""
    if name == APART:
        lines = (ROOT / ".ci/locks/tools.in").read_text().splitlines()
        return [Requirement(line) for line in lines if not line.startswith("#")]
    if name == "build":
        return [Requirement(line) for line in PYPROJECT["build-system"]["requires"]]
    required = [Requirement(line) for line in [*PROJECT["dependencies"], *EXTRAS.get(name, ())]]
    others = [needed for needed in required if needed.name != CLIENT["name"]]  # it is built from the repository
    return [*others, *map(Requirement, CLIENT["dependencies"])]


def environments() -> list[dict[str, str]]:
    return [
        {
            "python_full_version": python,
            "python_version": python.rpartition(".")[0],
            "platform_machine": machine,
            "platform_python_implementation": "CPython",
            "sys_platform": "linux",
            "extra": "",
        }
        for python in PYTHONS
        for machine in MACHINES
    ]


def needed_by(name: str) -> list[Requirement]:
    """Return what an installed package needs on any of our Pythons; nothing for one that is not installed here."""
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    requirements = [Requirement(line) for line in lines]
    return [
        needed
        for needed in requirements
        if needed.marker is None or any(needed.marker.evaluate(environment) for environment in environments())
    ]


def missing(requirements: list[Requirement], name: str) -> list[str]:
    """Return what a lock file does not hold, or in a version that will not do."""
    versions = {package: version for package, (version, _) in locked(name).items()}
    return [
        str(needed)
        for needed in requirements
        if (version := versions.get(canonicalize_name(needed.name))) is None
        or not needed.specifier.contains(version, prereleases=True)
    ]


def test_there_is_a_lock_for_each_extra():
    assert {lock.stem for lock in LOCKS} == {*EXTRAS, "build", "broker", APART}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_it_holds_what_is_asked_for(lock):
    requirements = asked_for(lock.stem)
    assert requirements
    assert missing(requirements, lock.stem) == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_it_holds_what_that_needs_on_every_python_that_we_support(lock):
    for name in locked(lock.stem):
        assert missing(needed_by(name), lock.stem) == [], name


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_package_has_hashes(lock):
    assert all(hashes for _, hashes in locked(lock.stem).values())


@pytest.mark.parametrize("path", [*LOCKS, ROOT / "pyproject.toml", ROOT / "Dockerfile"], ids=lambda path: path.name)
def test_no_package_index_is_named(path: Path):
    options = r"--(index-url|extra-index-url|find-links /(?!wheels)|trusted-host)|https?://\S*(pypi|simple)"
    assert re.findall(options, path.read_text()) == []


def test_a_package_is_the_same_in_all_locks():
    known: dict[str, tuple[str, frozenset[str]]] = {}
    for lock in LOCKS:
        if lock.stem != APART:
            packages = locked(lock.stem)
            assert {name: known.setdefault(name, pinned) for name, pinned in packages.items()} == packages
