"""The one-file program, and whether `make binary` has made it of what is there now."""

from miniqueue import __version__
from tests.acceptance.process import ROOT

BINARY = ROOT / f"dist/miniqueue-{__version__}-linux-x86_64"
SOURCES = [
    *(ROOT / "miniqueue").rglob("*.py"),
    *(ROOT / "client/src").rglob("*.py"),
    *(ROOT / ".ci/binary").glob("*.*"),
    *(ROOT / ".ci/sbom.py", ROOT / ".ci/locks/binary.lock"),
]
NOT_CURRENT = "`make binary` has not been run, or not since the last change"


def is_current() -> bool:
    return BINARY.exists() and all(BINARY.stat().st_mtime >= source.stat().st_mtime for source in SOURCES)
