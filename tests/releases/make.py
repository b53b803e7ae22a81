"""Makes the files of the present version, for the versions after it.

    python -m tests.releases.make write      before a release: writes <version>.tar.gz, .jsonl, and .json
    python -m tests.releases.make check      exit code 1 unless they hold what this version writes

The store is one that was used: tables and a log of LevelDB, both with messages, one half of them compressed. Each run
makes the same files.
"""

import asyncio
import gzip
import io
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import plyvel

from miniqueue import __version__, cli
from miniqueue.storage.leveldb.database import DatabaseOptions
from miniqueue.storage.leveldb.store import LevelDBStore
from tests.releases.names import names
from tests.transcripts.plays import dump

FOLDER = Path(__file__).parent
#: What a broker makes again: LevelDB's diary, our lock, and the ballast.
LEFT_OUT = {"LOG", "LOG.old", "LOCK", "miniqueue.lock", "miniqueue.ballast"}


def pairs() -> dict[bytes, bytes]:
    """Return the keys and values of the history."""
    lines = (line.replace("-", "").split(" ") for line in dump().splitlines())
    return {bytes.fromhex(key): bytes.fromhex(value) for key, value in lines}


def write_store(directory: Path) -> None:
    """Make the store: each third of its content by a broker of its own, the first two in tables."""
    items = sorted(pairs().items())
    for number, compression in enumerate(("none", "snappy", "none")):
        asyncio.run(_put(directory, dict(items[number::3]), compression))
        if number < 2:
            database = plyvel.DB(str(directory / "db"), compression=None if compression == "none" else compression)
            database.compact_range()
            database.close()


async def _put(directory: Path, content: dict[bytes, bytes], compression: str) -> None:
    store = await LevelDBStore.open(directory, options=DatabaseOptions(compression=compression))
    await store.write(content)
    await store.close()


def packed(directory: Path) -> bytes:
    """Return a data directory as an archive that depends on its content alone."""
    archived = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=archived, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for path in _files(directory):
            member = tarfile.TarInfo(str(path.relative_to(directory)))
            member.size, member.mode = path.stat().st_size, 0o600
            archive.addfile(member, io.BytesIO(path.read_bytes()))
    return archived.getvalue()


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in sorted(directory.rglob("*")) if path.is_file() and path.name not in LEFT_OUT)


def unpack(archive: Path, directory: Path) -> Path:
    """Make the data directory of an archive, and return it."""
    with tarfile.open(archive) as content:
        content.extractall(directory, filter="data")
    return directory


def exported(directory: Path) -> str:
    """Return the lines that `miniqueue export` writes of a store."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary, "lines")
        code = cli.main(["export", "-db", str(directory), "-o", str(path)], {})
        assert code == 0
        return path.read_text()


def made() -> dict[str, bytes]:
    """Return the files of the present version, by name."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary, "data")
        write_store(directory)
        archive = packed(directory)
        lines = exported(directory).encode()
    shown = json.dumps(names(), indent=1, ensure_ascii=False).encode() + b"\n"
    return {f"{__version__}.tar.gz": archive, f"{__version__}.jsonl": lines, f"{__version__}.json": shown}


def main(arguments: Sequence[str]) -> int:
    """Write or check the files; return the exit code."""
    if list(arguments) not in (["write"], ["check"]):
        print(__doc__)
        return 2
    files = made()
    if arguments[0] == "write":
        for name, content in files.items():
            (FOLDER / name).write_bytes(content)
        return 0
    stale = [name for name, content in files.items() if not _is_content(FOLDER / name, content)]
    for name in stale:
        print(f"{name} is not what this version writes; run python -m tests.releases.make write")
    return 1 if stale else 0


def _is_content(path: Path, content: bytes) -> bool:
    return path.exists() and path.read_bytes() == content


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
