"""Builds the one-file miniqueue; `make binary` calls it with Debian's Python 3.11 and the locked wheels.

    PYTHONPATH=.ci /usr/bin/python3.11 .ci/binary/build.py <directory of wheels> <directory for the results>

    launcher.c + libpython3.11.a (Debian) ─▶ program ┐
    standard library, wheels, our packages ─▶ .pyc   ├─▶ miniqueue-<version>-linux-x86_64
    extension modules and the libraries they need    ┘   …-THIRD-PARTY.txt, …-sbom.cdx.json

The same sources make the same bytes: members are sorted and without times, compiled modules name the hash of their
source, and nothing of this machine's paths is in them. docs/binary.md explains the choices.
"""

import subprocess
import sys
from itertools import chain
from pathlib import Path

from archive import Archive
from libraries import Libraries, check_glibc
from licenses import third_party
from parts import CONTAINED, Part, debian_part, read_wheel
from program import link
from sbom import bill, own_version, read_locks
from standard_library import add_standard_library

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
#: Our packages.
OWN = (ROOT / "client/src/miniqueue_client", ROOT / "miniqueue")
# Debian's packages whose files are linked into the program.
LINKED = ("libpython3.11-dev", "libexpat1-dev", "zlib1g-dev")


def main(wheels: Path, results: Path) -> None:
    """Write the file, its licenses and its bill of materials."""
    _require_packages("gcc", "libc6-dev", *LINKED, *chain(*map(dict.values, CONTAINED.values())))
    archive, libraries = Archive(), Libraries()
    parts = [debian_part(package) for package in LINKED]
    add_standard_library(archive, libraries)
    for wheel in sorted(wheels.glob("*.whl")):
        parts.append(read_wheel(wheel, archive, libraries))
    for folder in OWN:
        for path in sorted(folder.rglob("*.py")):
            archive.add_source(str(path.relative_to(folder.parent)), path.read_bytes())
    archive.add_source("startup.py", (HERE / "startup.py").read_bytes())
    libraries.add_to(archive)
    parts.extend(map(debian_part, libraries.debian_packages()))
    _write(results, archive, sorted(set(parts), key=Part.order))


def _require_packages(*packages: str) -> None:
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status} "]
    missing = [
        name
        for name in packages
        if "installed" not in subprocess.run([*query, name], capture_output=True, text=True, check=False).stdout.split()
    ]
    if missing:
        raise SystemExit(f"the build requires packages of Debian 12: apt-get install {' '.join(missing)}")


def _write(results: Path, archive: Archive, parts: list[Part]) -> None:
    name = f"miniqueue-{own_version()}-linux-x86_64"
    required_by = {package.name: package.required_by for package in read_locks([ROOT / ".ci/locks/binary.lock"])}
    materials = bill([part.component(required_by.get(part.name, frozenset())) for part in parts])
    licenses = third_party(parts)
    archive.add("THIRD-PARTY.txt", licenses.encode())
    archive.add("sbom.cdx.json", materials.encode())
    program = link(HERE / "launcher.c")
    oldest = check_glibc({"the program": program, **archive.shared_objects()})
    results.mkdir(parents=True, exist_ok=True)
    (results / f"{name}-THIRD-PARTY.txt").write_text(licenses)
    (results / f"{name}-sbom.cdx.json").write_text(materials)
    file, unfinished = results / name, results / f"{name}.part"  # one that runs cannot be written to
    unfinished.write_bytes(program + archive.packed(len(program)))
    unfinished.chmod(0o755)
    unfinished.replace(file)
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB, for glibc {oldest} or newer")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
