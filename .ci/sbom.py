"""Bills of materials: what miniqueue consists of, as CycloneDX 1.6 JSON.

    lock files ────────────────────────────────┐
                                               ├─▶ Component ─▶ bill
    wheels, Debian packages (binary/parts.py) ─┘

    python .ci/sbom.py .ci/locks/broker.lock [.ci/locks/granian.lock …] > sbom.cdx.json

The image contains the bill of its lock files, which this prints; the one file contains that of its wheels. The same
components give the same bytes: the serial number is a digest of the content, and there is no time.

A package of a lock file has the hashes of all its files, since pip installs one of them, and what requires it, which
pip-compile has written down. The client is built with miniqueue, and has no hash. What is not in a lock is not in its
bill: the interpreter, and the packages of the system.
"""

import json
import re
import sys
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
NAME, CLIENT_NAME = "miniqueue", "miniqueue-client"
LICENSE = "MIT"

_BLOCK = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>\S+) \\\n(?P<hashes>(?: +--hash=.*\n)+)(?P<via>(?: +#.*\n)*)", re.M
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Component(NamedTuple):
    """Software that miniqueue consists of.

    Attributes:
      url: its package URL.
      version: empty if it is not known.
      hashes: SHA-256 of the files that it is distributed as.
      required_by: names of the components that require it.
      licenses: their names; empty if they are not known.
      inside: what was compiled into it.
    """

    url: str
    name: str
    version: str
    hashes: tuple[str, ...] = ()
    required_by: frozenset[str] = frozenset()
    licenses: str = ""
    inside: "tuple[Component, ...]" = ()


def bill(components: Sequence[Component]) -> str:
    """Return the bill of materials of miniqueue with these components."""
    version = own_version()
    own = f"pkg:pypi/{NAME}@{version}"
    components = sorted([*components, _client(version)], key=lambda component: component.url)
    required = [(own, NAME), *((component.url, component.name) for component in components)]
    content: dict[str, Any] = {
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": NAME,
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": LICENSE}}],
            }
        },
        "components": [_entry(component) for component in components],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(needed.url for needed in components if name in needed.required_by)}
            for ref, name in sorted(required)
        ],
    }
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content, sort_keys=True))
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{number}", "version": 1}
    return json.dumps(document | content, indent=2, ensure_ascii=False) + "\n"


def _client(version: str) -> Component:
    """Return the client, which is built from this repository too."""
    url = f"pkg:pypi/{CLIENT_NAME}@{version}"
    return Component(url, CLIENT_NAME, version, required_by=frozenset({NAME}), licenses=LICENSE)


def _entry(component: Component, parent: str = "") -> dict[str, Any]:
    reference = parent + component.url
    entry: dict[str, Any] = {"type": "library", "bom-ref": reference, "name": component.name, "purl": component.url}
    if component.version:
        entry["version"] = component.version
    if component.licenses:
        entry["licenses"] = [{"license": {"name": component.licenses}}]
    if component.hashes:
        hashes = [{"alg": "SHA-256", "content": digest} for digest in component.hashes]
        entry["externalReferences"] = [{"type": "distribution", "url": component.url, "hashes": hashes}]
    if component.inside:
        entry["components"] = [_entry(inner, f"{reference}#") for inner in component.inside]
    return entry


def own_version() -> str:
    """Return the version in the sources, without importing them."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / NAME / "__init__.py").read_text(), re.M)
    assert found
    return found[1]


def read_locks(locks: Iterable[Path]) -> list[Component]:
    """Return each package once, in the order of names; raises ValueError if two locks differ in its version."""
    known: dict[str, Component] = {}
    for package in (package for lock in locks for package in _read_lock(lock.read_text())):
        other = known.setdefault(package.name, package)
        if other.version != package.version:
            raise ValueError(f"{package.name}: {other.version} and {package.version} are locked")
        known[package.name] = other._replace(required_by=other.required_by | package.required_by)
    return [known[name] for name in sorted(known)]


def _read_lock(text: str) -> list[Component]:
    """Return the packages of a lock file that pip-compile wrote."""
    return [
        Component(
            f"pkg:pypi/{block['name']}@{block['version']}",
            block["name"],
            block["version"],
            hashes=tuple(sorted(_HASH.findall(block["hashes"]))),
            required_by=frozenset(re.findall(r"# +(?:via +)?(?!via$)([\w.-]+)", _without_files(block["via"]), re.M)),
        )
        for block in _BLOCK.finditer(text)
    ]


def _without_files(via: str) -> str:
    """Return what requires a package; a file does in place of the client, on Pythons other than that of `make lock`."""
    return re.sub(r"-r \S+", CLIENT_NAME, via)


if __name__ == "__main__":
    print(bill(read_locks(map(Path, sys.argv[1:]))), end="")
