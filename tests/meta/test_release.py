"""A release is made of a commit that is clean, consistent, and green; its packages can be built again, byte by byte."""

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from miniqueue import __version__
from tests.acceptance.tools import needs
from tests.meta.modules import ROOT

pytestmark = needs("git", "bash")

TAG = f"v{__version__}"
MAKEFILE = "binary:\n\techo binary >dist/miniqueue-binary\n\nimages:\n\tfalse\n"
PAGE = (ROOT / "docs/releasing.md").read_text()
NAMES = [
    f"{name}-{__version__}{suffix}"
    for name in ("miniqueue", "miniqueue_client")
    for suffix in ("-py3-none-any.whl", ".tar.gz")
]


class Repository:
    """A repository with the script."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def fill(self) -> "Repository":
        """Commit the script, a small package, and suites that take no time; return itself."""
        root = self.root
        for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore", ".ci/release.py"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
        for name in ("__init__.py", "errors/__init__.py", "errors/base.py", "py.typed"):
            (root / "miniqueue" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "miniqueue" / name, root / "miniqueue" / name)
        shutil.copytree(ROOT / "client", root / "client", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        self.write("CHANGELOG.md", f"# Change log\n\n## [{__version__}] – 2026-11-24\n\n### Added\n")
        self.write("Makefile", MAKEFILE)
        self.write(".ci/run", "#!/bin/sh\necho the suites run\n").chmod(0o755)
        self.write("tests/releases/make.py", "import sys\nprint(*sys.argv[1:])\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit()
        return self

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def git(self, *words: str) -> str:
        settings = ("user.name=A", "user.email=a@example.org", "commit.gpgsign=false", "tag.gpgsign=false")
        options = [word for setting in settings for word in ("-c", setting)]
        return subprocess.run(
            ["git", *options, *words], cwd=self.root, capture_output=True, text=True, check=True
        ).stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "Change", "--date", "2026-11-24T12:00:00Z")

    def release(self, *words: str) -> subprocess.CompletedProcess[str]:
        names = {
            f"GIT_{role}_{key}": f"{role}@example.org" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")
        }
        return subprocess.run(
            [sys.executable, ".ci/release.py", *words],
            cwd=self.root,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", **names},
            capture_output=True,
            text=True,
            check=False,
        )

    def content(self) -> dict[str, bytes]:
        """Return what was built, by name."""
        return {path.name: path.read_bytes() for path in sorted((self.root / "dist").iterdir())}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository").fill()


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository of which a release was made."""
    directory = tmp_path_factory.mktemp("released")
    repository = Repository(directory / "repository").fill()
    repository.git("clone", "--quiet", "--bare", ".", str(directory / "origin"))
    repository.git("remote", "add", "origin", str(directory / "origin"))
    done = repository.release()
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("check\n") < done.stdout.index("the suites run\n")
    return repository


def test_a_release_is_built_checked_and_tagged_but_not_pushed(released):
    files = released.content()
    assert list(files) == ["SHA256SUMS", *sorted(["miniqueue-binary", *NAMES])]
    sums = "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in files if name != "SHA256SUMS")
    assert files["SHA256SUMS"].decode() == sums
    assert released.git("rev-parse", f"{TAG}^{{commit}}") == released.git("rev-parse", "HEAD")
    assert released.git("cat-file", "-t", TAG) == "tag\n"
    assert released.git("ls-remote", "--tags", "origin") == ""


def test_a_user_verifies_the_files_as_the_page_says(released, tmp_path):
    checked = re.findall(r"^sha256sum .*$", PAGE, re.MULTILINE)
    assert checked
    downloads = shutil.copytree(released.root / "dist", tmp_path / "downloads")
    (downloads / "miniqueue-binary").unlink()  # a user downloads some of the files
    for damage in (b"", b"x"):
        with (downloads / NAMES[0]).open("ab") as file:
            file.write(damage)
        done = subprocess.run(["bash", "-c", checked[0]], cwd=downloads, capture_output=True, check=False)
        assert (done.returncode != 0) == bool(damage)


def test_source_and_wheel_are_the_same_in_another_clone(released, tmp_path):
    other = Repository(tmp_path / "clone")
    released.git("clone", "--quiet", ".", str(other.root))
    (other.root / "miniqueue/errors/base.py").chmod(0o600)
    assert other.release("--packages-only").returncode == 0
    assert other.content() == {name: released.content()[name] for name in NAMES}


def test_the_source_archive_has_all_files_and_the_metadata(released):
    wheel, source = (released.root / "dist" / name for name in NAMES[:2])
    with tarfile.open(source) as archive, zipfile.ZipFile(wheel) as built:
        folder = f"miniqueue-{__version__}"
        tracked = {f"{folder}/{name}" for name in released.git("ls-files").splitlines()}
        assert {member.name for member in archive if member.isfile()} == tracked | {f"{folder}/PKG-INFO"}
        metadata = archive.extractfile(f"{folder}/PKG-INFO")
        assert metadata is not None
        assert metadata.read() == built.read(f"{folder}.dist-info/METADATA")
        assert {"miniqueue/__init__.py", "miniqueue/py.typed"} <= set(built.namelist())


def test_the_client_is_a_distribution_of_the_files_in_its_folder(released):
    wheel, source = (released.root / "dist" / name for name in NAMES[2:])
    with tarfile.open(source) as archive, zipfile.ZipFile(wheel) as built:
        folder = f"miniqueue_client-{__version__}"
        tracked = {name.removeprefix("client/") for name in released.git("ls-files", "client").splitlines()}
        expected = {f"{folder}/{name}" for name in (*tracked, "PKG-INFO")}
        assert {member.name for member in archive if member.isfile()} == expected
        metadata = built.read(f"{folder}.dist-info/METADATA").decode()
        modules = {name for name in built.namelist() if not name.startswith(f"{folder}.dist-info/")}
    assert modules == {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    assert f"\nVersion: {__version__}\n" in metadata
    assert re.findall(r"^Requires-Dist: (\w+)[^;]*$", metadata, re.MULTILINE) == ["redis"]


def test_a_dry_run_shows_the_steps_and_changes_nothing(repository):
    done = repository.release("--dry-run")
    assert (done.returncode, done.stdout) == (0, f"check\n.ci/run\nmake binary\ngit tag {TAG}\n")
    assert not (repository.root / "dist").exists()
    assert repository.git("tag") == ""
    assert repository.git("status", "--porcelain") == ""


REFUSED = {
    "untracked": ("new.txt", "x", "the tree has changes", False),
    "changed": ("README.md", "x", "the tree has changes", False),
    "unreleased": ("CHANGELOG.md", f"## [{__version__}] – unreleased\n", "CHANGELOG.md: the first heading is", True),
    "other version": ("CHANGELOG.md", "## [9.9.9] – 2026-11-24\n", "CHANGELOG.md: the first heading is", True),
    "no version": ("miniqueue/__init__.py", "", "__init__.py: no __version__", True),
    "other client": (
        "client/src/miniqueue_client/__init__.py",
        '__version__ = "9.9.9"\n',
        "client/src/miniqueue_client/__init__.py: the version is 9.9.9; must be",
        True,
    ),
    "two versions of the client": (
        "client/pyproject.toml",
        '[project]\nversion = "0.1"\n',
        "client/pyproject.toml: the version must be",
        True,
    ),
    "other dependency": (
        "pyproject.toml",
        '[project]\ndynamic = ["version"]\ndependencies = ["miniqueue-client==9.9.9"]\n'
        '[tool.setuptools.dynamic]\nversion = { attr = "miniqueue.__version__" }\n',
        "pyproject.toml: the dependencies must contain miniqueue-client==",
        True,
    ),
    "two versions": ("pyproject.toml", '[project]\nversion = "0.1"\n', "pyproject.toml: the version must be", True),
    "old store": ("tests/releases/make.py", "raise SystemExit(1)\n", "tests.releases.make check failed", True),
    "red suites": (".ci/run", "#!/bin/sh\nexit 3\n", ".ci/run failed with exit code 3", True),
    "no binary": ("Makefile", "binary:\n\tfalse\n", "make binary failed", True),
    "other commit": (
        ".ci/run",
        "#!/bin/sh\ngit commit --quiet --allow-empty --message Other\n",
        "another commit was checked out meanwhile",
        True,
    ),
    "untidy suites": (".ci/run", "#!/bin/sh\ntouch left\n", "the steps changed the tree", True),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_ready_is_refused_and_not_tagged(repository, case):
    name, text, error, is_committed = REFUSED[case]
    repository.write(name, text)
    if is_committed:
        repository.commit()
    done = repository.release()
    assert done.returncode == 1
    assert f"release: {error}" in done.stderr.replace(f"{sys.executable} -m ", "")
    assert repository.git("tag") == ""
    assert not (repository.root / "dist/SHA256SUMS").exists()


def test_a_version_is_released_once(repository):
    repository.git("tag", TAG)
    done = repository.release()
    assert done.returncode == 1
    assert f"tag {TAG} exists already" in done.stderr


@pytest.mark.parametrize("script", re.findall(r"^ *```sh\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL))
def test_the_commands_of_the_page_are_shell_and_use_options_that_there_are(script):
    subprocess.run(["bash", "-n", "-c", script], check=True)
    for word in re.findall(r"(?:release\.py |make release ARGS=)(\S+)", script):
        assert f'"{word}"' in (ROOT / ".ci/release.py").read_text()
