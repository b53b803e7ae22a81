"""Makes a release of the checked-out commit: checks it, builds its files, and tags it. Nothing leaves this machine.

    python .ci/release.py                    `make release`, in the environment of `make install`
    python .ci/release.py --dry-run          only checks, and prints the steps
    python .ci/release.py --packages-only    only builds source archive and wheel of the commit, to compare them

    clean tree ─ versions agree ─ no such tag ─ tests/releases is current     nothing has been written so far
      ─▶ .ci/run                           every suite
      ─▶ dist/miniqueue-<v>.tar.gz         the source: the files of the commit, and the metadata of the wheel
         dist/miniqueue-<v>-….whl          built from that archive
         dist/miniqueue_client-<v>…        both for the client, of the files in client/
         what `make binary` and `make image` add to dist/, if there are such targets
         dist/SHA256SUMS                   of everything in dist/
      ─▶ git tag v<v>

Source archive and wheel depend on the commit alone: whoever builds them again gets the same bytes. docs/releasing.md
has what follows.
"""

import argparse
import ast
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

DONE, REFUSED = 0, 1
#: Targets of the Makefile that add files to dist/.
FURTHER_TARGETS = ("binary", "image")
#: Compares the store and the names of this version, which later versions are tested with, with what it writes.
FIXTURES = ("-m", "tests.releases.make", "check")


class RefusedError(Exception):
    """The commit cannot be released; the text says why."""


class Distribution(NamedTuple):
    """What is built and installed as a whole.

    Attributes:
      package: the package, whose `__version__` is the version.
      folder: the folder with its pyproject.toml, ending with a slash, or empty for the root.
      source: the folder with the package, relative to `folder`.
    """

    package: str
    folder: str = ""
    source: str = ""

    @property
    def project(self) -> Path:
        """The file that describes it, from the root."""
        return Path(self.folder, "pyproject.toml")

    @property
    def module(self) -> Path:
        """The file that contains its version, from the root."""
        return Path(self.folder, self.source, self.package, "__init__.py")


BROKER = Distribution("miniqueue")
CLIENT = Distribution("miniqueue_client", "client/", "src")
#: In the order in which they are built and installed.
DISTRIBUTIONS = (CLIENT, BROKER)


class Release:
    """The release of a checked-out commit.

    Args:
      root: the work tree.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._dist = root / "dist"
        self.version = _assigned(root / BROKER.module, "__version__")
        self._tag = f"v{self.version}"
        self._commit = self._git("rev-parse", "HEAD")

    def check(self) -> None:
        """Raise RefusedError unless the commit can be released; change nothing."""
        if changed := self._git("status", "--porcelain"):
            raise RefusedError(f"the tree has changes; commit or remove them:\n{changed}")
        _check_versions(self._root, self.version)
        _check_change_log(self._root / "CHANGELOG.md", self.version)
        if self._git("tag", "--list", self._tag):
            raise RefusedError(f"tag {self._tag} exists already; a version is released once")
        self._run(sys.executable, *FIXTURES)

    def steps(self) -> list[tuple[str, ...]]:
        """Return the commands that run between the checks and the tag."""
        makefile = (self._root / "Makefile").read_text()
        further = [target for target in FURTHER_TARGETS if re.search(rf"^{target}:", makefile, re.MULTILINE)]
        return [(".ci/run",), *(("make", target) for target in further)]

    def make(self) -> None:
        """Run every suite, build the files, and make the tag; raises RefusedError if a step fails."""
        suites, *builds = self.steps()
        self._run(*suites)
        self.build_packages()
        for step in builds:
            self._run(*step)
        if changed := self._git("status", "--porcelain"):
            raise RefusedError(f"the steps changed the tree:\n{changed}")
        if (head := self._git("rev-parse", "HEAD")) != self._commit:
            raise RefusedError(f"another commit was checked out meanwhile: {head}; all began with {self._commit}")
        self._write_checksums()
        self._git("tag", "--annotate", self._tag, "--message", f"miniqueue {self.version}", self._commit)

    def files(self) -> list[Path]:
        """Return what was built."""
        return sorted(path for path in self._dist.iterdir() if path.is_file())

    def build_packages(self) -> None:
        """Build each wheel from its source archive, which then gets the metadata of the wheel, for registries."""
        shutil.rmtree(self._dist, ignore_errors=True)
        self._dist.mkdir()
        for distribution in DISTRIBUTIONS:
            self._build(distribution)

    def _build(self, distribution: Distribution) -> None:
        name = f"{distribution.package}-{self.version}"
        with tempfile.TemporaryDirectory() as directory:
            with tarfile.open(fileobj=io.BytesIO(self._archive(distribution, name))) as archive:
                archive.extractall(directory, filter="tar")
            wheel = self._build_wheel(Path(directory, name), name)
        with zipfile.ZipFile(wheel) as content:
            source = self._archive(distribution, name, content.read(f"{name}.dist-info/METADATA"))
        path = self._dist / f"{name}.tar.gz"
        with path.open("wb") as file, gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
            packed.write(source)

    def _archive(self, distribution: Distribution, name: str, metadata: bytes | None = None) -> bytes:
        """Return the files of the commit, in a folder of this name, as a tar archive; the same on every machine."""
        files = self._output("-c", "tar.umask=0022", "archive", self._commit, "--", distribution.folder or ".")
        written = io.BytesIO()
        with tarfile.open(fileobj=io.BytesIO(files)) as archive, tarfile.open(fileobj=written, mode="w") as result:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                member.name = f"{name}/{member.name}/".replace(f"/{distribution.folder}", "/", 1).rstrip("/")
                member.pax_headers = {}
                result.addfile(member, content)
            if metadata is not None:
                member = tarfile.TarInfo(f"{name}/PKG-INFO")
                member.size, member.mtime = len(metadata), int(self._time())
                result.addfile(member, io.BytesIO(metadata))
        return written.getvalue()

    def _time(self) -> str:
        """Return when the commit was made, in seconds since 1970."""
        return self._git("log", "-1", "--format=%ct", self._commit)

    def _build_wheel(self, source: Path, name: str) -> Path:
        """Build without a network and without isolation, with the tools that `make install` has locked."""
        environment = os.environ | {"SOURCE_DATE_EPOCH": self._time()}
        program = "import setuptools.build_meta as builder, sys; builder.build_wheel(sys.argv[1])"
        command = [sys.executable, "-c", program, str(self._dist.absolute())]
        done = subprocess.run(command, cwd=source, env=environment, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise RefusedError(f"the wheel cannot be built:\n{done.stderr}")
        (wheel,) = self._dist.glob(f"{name}-*.whl")
        return wheel

    def _write_checksums(self) -> None:
        lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in self.files()]
        (self._dist / "SHA256SUMS").write_text("".join(lines))

    def _git(self, *words: str) -> str:
        return self._output(*words).decode().strip()

    def _output(self, *words: str) -> bytes:
        done = subprocess.run(["git", *words], cwd=self._root, check=False, capture_output=True)
        if done.returncode != 0:
            raise RefusedError(f"git {' '.join(words)} failed: {done.stderr.decode().strip()}")
        return done.stdout

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, cwd=self._root, check=False)
        if done.returncode != 0:
            raise RefusedError(f"{' '.join(command)} failed with exit code {done.returncode}")


def _assigned(path: Path, name: str) -> str:
    """Return the text that a module assigns to a name, without importing the module."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            return str(ast.literal_eval(node.value))
    raise RefusedError(f"{path.name}: no {name}")


def _check_versions(root: Path, version: str) -> None:
    """Check that both distributions have the version of the program, and that the broker requires that client."""
    for distribution in DISTRIBUTIONS:
        project = tomllib.loads((root / distribution.project).read_text())
        source = project.get("tool", {}).get("setuptools", {}).get("dynamic", {}).get("version")
        attribute = f"{distribution.package}.__version__"
        if project["project"].get("dynamic") != ["version"] or source != {"attr": attribute}:
            raise RefusedError(f"{distribution.project}: the version must be read from {attribute}")
        if (other := _assigned(root / distribution.module, "__version__")) != version:
            raise RefusedError(f"{distribution.module}: the version is {other}; must be {version}")
    required = tomllib.loads((root / BROKER.project).read_text())["project"]["dependencies"]
    if (needed := f"miniqueue-client=={version}") not in required:
        raise RefusedError(f"{BROKER.project}: the dependencies must contain {needed}")


def _check_change_log(path: Path, version: str) -> None:
    """Check that the change log begins with this version, and with the day of its release."""
    heading = re.search(r"^## (.*)$", path.read_text(), re.MULTILINE)
    expected = f"## [{version}] – YYYY-MM-DD"
    if not heading or not re.fullmatch(rf"\[{re.escape(version)}\] – \d{{4}}-\d\d-\d\d", heading[1]):
        raise RefusedError(f"{path.name}: the first heading is {heading and heading[0]!r}; must be {expected!r}")


def main(arguments: Sequence[str], root: Path) -> int:
    """Make the release; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--dry-run", action="store_true", help="only check, and print the steps")
    only.add_argument("--packages-only", action="store_true", help="only build source archive and wheel")
    options = parser.parse_args(arguments)
    try:
        release = Release(root)
        if options.packages_only:
            release.build_packages()
        else:
            release.check()
            if options.dry_run:
                print(*(" ".join(step) for step in release.steps()), f"git tag v{release.version}", sep="\n")
                return DONE
            release.make()
    except RefusedError as error:
        print(f"release: {error}", file=sys.stderr)
        return REFUSED
    print(*(f"dist/{path.name}" for path in release.files()), sep="\n")
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).parents[1]))
