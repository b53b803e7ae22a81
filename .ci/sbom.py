"""Prints what miniqueue consists of, as CycloneDX 1.6 JSON, from lock files.

    python .ci/sbom.py .ci/locks/broker.lock [.ci/locks/granian.lock …] > sbom.cdx.json

The same locks give the same bytes: the serial number is a digest of the content, and there is no time. A package has
the hashes of all its files, since pip installs one of them, and what requires it, which pip-compile has written down.
What is not in a lock is not in the list: the interpreter, and the packages of the system below it.
"""

import json
import re
import sys
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
NAME = "miniqueue"

_BLOCK = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>\S+) \\\n(?P<hashes>(?: +--hash=.*\n)+)(?P<via>(?: +#.*\n)*)", re.M
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Package(NamedTuple):
    """A locked package."""

    name: str
    version: str
    hashes: tuple[str, ...]
    required_by: frozenset[str]

    @property
    def purl(self) -> str:
        """The package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(text: str) -> list[Package]:
    """Return the packages of a lock file that pip-compile wrote."""
    return [
        Package(
            block["name"],
            block["version"],
            tuple(sorted(_HASH.findall(block["hashes"]))),
            frozenset(re.findall(r"# +(?:via +)?(?!via$)([\w.-]+)", block["via"], re.M)),
        )
        for block in _BLOCK.finditer(text)
    ]


def merged(packages: Iterable[Package]) -> list[Package]:
    """Return each package once, in the order of names; raises ValueError if two locks differ in its version."""
    known: dict[str, Package] = {}
    for package in packages:
        other = known.setdefault(package.name, package)
        if other.version != package.version:
            raise ValueError(f"{package.name}: {other.version} and {package.version} are locked")
        known[package.name] = other._replace(required_by=other.required_by | package.required_by)
    return [known[name] for name in sorted(known)]


def bill(packages: Sequence[Package], version: str) -> dict[str, Any]:
    """Return the bill of materials of miniqueue with these packages."""
    own = f"pkg:pypi/{NAME}@{version}"
    refs = {NAME: own} | {package.name: package.purl for package in packages}
    content: dict[str, Any] = {
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": NAME,
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": [_component(package) for package in packages],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(refs[package.name] for package in packages if name in package.required_by)}
            for name, ref in sorted(refs.items())
        ],
    }
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
    } | content


def _component(package: Package) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": digest} for digest in package.hashes]
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "externalReferences": [{"type": "distribution", "url": package.purl, "hashes": hashes}],
    }


def own_version() -> str:
    """Return the version in the sources, without importing them."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / NAME / "__init__.py").read_text(), re.M)
    assert found
    return found[1]


def main(locks: Sequence[str]) -> int:
    """Print the bill of materials of these lock files; return the exit code."""
    packages = merged(package for lock in locks for package in read_lock(Path(lock).read_text()))
    print(json.dumps(bill(packages, own_version()), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
