"""Makes a release of the checked-out commit: checks it, builds its files, and tags it. Nothing leaves this machine.

    python .ci/release.py                    `make release`, in the environment of `make install`
    python .ci/release.py --dry-run          only checks, and prints the steps
    python .ci/release.py --packages-only    only builds source archive and wheel of the commit, to compare them

    clean tree ─ versions agree ─ no such tag ─ tests/releases is current     nothing has been written so far
      ─▶ .ci/run                           every suite
      ─▶ dist/miniqueue-<v>.tar.gz         the source: the files of the commit, and the metadata of the wheel
         dist/miniqueue-<v>-….whl          built from that archive
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

DONE, REFUSED = 0, 1
#: Targets of the Makefile that add files to dist/.
FURTHER_TARGETS = ("binary", "image")
#: Compares the store and the names of this version, which later versions are tested with, with what it writes.
FIXTURES = ("-m", "tests.releases.make", "check")


class RefusedError(Exception):
    """The commit cannot be released; the text says why."""


class Release:
    """The release of a checked-out commit.

    Args:
      root: the work tree.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._dist = root / "dist"
        self.version = _assigned(root / "miniqueue/__init__.py", "__version__")
        self._tag = f"v{self.version}"
        self._name = f"miniqueue-{self.version}"
        self._commit = self._git("rev-parse", "HEAD")

    def check(self) -> None:
        """Raise RefusedError unless the commit can be released; change nothing."""
        if changed := self._git("status", "--porcelain"):
            raise RefusedError(f"the tree has changes; commit or remove them:\n{changed}")
        _check_project(self._root / "pyproject.toml")
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
        """Build the wheel from the source archive, which then gets the metadata of the wheel, for registries."""
        shutil.rmtree(self._dist, ignore_errors=True)
        self._dist.mkdir()
        with tempfile.TemporaryDirectory() as directory:
            with tarfile.open(fileobj=io.BytesIO(self._archive())) as archive:
                archive.extractall(directory, filter="tar")
            wheel = self._build_wheel(Path(directory, self._name))
            metadata = Path(directory, "PKG-INFO")
            with zipfile.ZipFile(wheel) as content:
                metadata.write_bytes(content.read(f"{self._name}.dist-info/METADATA"))
            source = self._archive(f"--add-file={metadata}")
        path = self._dist / f"{self._name}.tar.gz"
        with path.open("wb") as file, gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
            packed.write(source)

    def _archive(self, *options: str) -> bytes:
        """Return the files of the commit as a tar archive, with the same modes on every machine."""
        return self._output("-c", "tar.umask=0022", "archive", f"--prefix={self._name}/", *options, self._commit)

    def _build_wheel(self, source: Path) -> Path:
        """Build without a network and without isolation, with the tools that `make install` has locked."""
        environment = os.environ | {"SOURCE_DATE_EPOCH": self._git("log", "-1", "--format=%ct", self._commit)}
        program = "import setuptools.build_meta as builder, sys; builder.build_wheel(sys.argv[1])"
        command = [sys.executable, "-c", program, str(self._dist.absolute())]
        done = subprocess.run(command, cwd=source, env=environment, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise RefusedError(f"the wheel cannot be built:\n{done.stderr}")
        (wheel,) = self._dist.glob("*.whl")
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


def _check_project(path: Path) -> None:
    """Check that the version of the packages is that of the program."""
    project = tomllib.loads(path.read_text())
    source = project.get("tool", {}).get("setuptools", {}).get("dynamic", {}).get("version")
    if project["project"].get("dynamic") != ["version"] or source != {"attr": "miniqueue.__version__"}:
        raise RefusedError(f"{path.name}: the version must be read from miniqueue.__version__")


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
