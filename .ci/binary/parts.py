"""The parts that others made: wheels and Debian packages, with their versions and licenses."""

import json
import re
import subprocess
from dataclasses import dataclass
from email.parser import Parser
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote
from zipfile import ZipFile

from archive import Archive
from libraries import Libraries
from sbom import Component

# Software that wheels contain without saying so, and the Debian package that has its license.
CONTAINED = {
    "plyvel": {"leveldb": "libleveldb1d", "snappy": "libsnappy1v5"},
    "uvloop": {"libuv": "libuv1"},
    "hiredis": {"hiredis": "libhiredis0.14"},
}
# What an interpreter that never compiles and never shows a source does not read.
_LEFT_OUT = (".py", ".pyi", ".pyx", ".pxd", ".pxi", ".c", ".h", ".cpp", ".hpp")


@dataclass(frozen=True)
class Part:
    """One part.

    Attributes:
      kind: the type of its package URL: pypi, deb, cargo, or generic.
      version: empty if it is not known.
      licenses: the names of its licenses, as it states them itself.
      texts: their texts.
      sha256: the digest of the wheel; empty for other kinds.
      inside: the parts that were compiled into it, as its own bill of materials lists them.
    """

    kind: str
    name: str
    version: str
    licenses: str
    texts: tuple[str, ...] = ()
    sha256: str = ""
    inside: tuple["Part", ...] = ()

    def order(self) -> tuple[str, ...]:
        """Return the key that parts are sorted by."""
        return self.kind, self.name, self.version

    def title(self) -> str:
        """Return its name and version."""
        return f"{self.name} {self.version}".rstrip()

    def url(self) -> str:
        """Return the package URL."""
        qualifiers = "?arch=amd64&distro=debian-12" if self.kind == "deb" else ""
        vendor = "debian/" if self.kind == "deb" else ""
        version = f"@{quote(self.version, safe='~')}" if self.version else ""
        return f"pkg:{self.kind}/{vendor}{quote(self.name)}{version}{qualifiers}"

    def component(self, required_by: frozenset[str] = frozenset()) -> Component:
        """Return its entry of the bill of materials."""
        hashes = (self.sha256,) if self.sha256 else ()
        inside = tuple(part.component() for part in self.inside)
        return Component(self.url(), self.name, self.version, hashes, required_by, self.licenses, inside)


def debian_part(package: str) -> Part:
    """Return what is known of an installed Debian package."""
    query = ["dpkg-query", "--show", "--showformat=${Version}", f"{package}:amd64"]
    version = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    return Part("deb", package, version, _license_names(package), (_license_text(package),))


def _license_text(package: str) -> str:
    return Path(f"/usr/share/doc/{package}/copyright").read_text()


def _license_names(package: str) -> str:
    names = re.findall(r"^License: *([A-Za-z].{,60})$", _license_text(package), re.MULTILINE)
    return ", ".join(sorted(set(names))) or "see its text"


def read_wheel(path: Path, archive: Archive, libraries: Libraries) -> Part:
    """Add the files of a wheel to the archive, and return it."""
    with ZipFile(path) as wheel:
        names = sorted(name for name in wheel.namelist() if not name.endswith("/"))
        files = {name: wheel.read(name) for name in names}
    for name, content in files.items():
        _add(name, content, archive, libraries)
    return _wheel_part(path, files)


def _add(name: str, content: bytes, archive: Archive, libraries: Libraries) -> None:
    extension = re.fullmatch(r"(.+?)(\.cpython-311-x86_64-linux-gnu|\.abi3)\.so", name)
    if ".data/" in name:
        return  # scripts and headers
    if extension:
        libraries.add_extension(extension[1].replace("/", "."), content)
    elif ".libs/" in name:
        libraries.add_library(name.rpartition("/")[2], content)
    elif name.endswith(".py"):
        archive.add_source(name, content)
    elif not name.endswith(_LEFT_OUT) and not name.endswith(".dist-info/RECORD"):
        archive.add(name, content)


def _wheel_part(path: Path, files: dict[str, bytes]) -> Part:
    of_metadata = {name.partition(".dist-info/")[2]: text for name, text in files.items() if ".dist-info/" in name}
    fields = Parser().parsestr(of_metadata["METADATA"].decode())
    classifiers = [line.rpartition(" :: ")[2] for line in fields.get_all("Classifier", []) if "License ::" in line]
    name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
    texts = [text.decode() for file, text in sorted(of_metadata.items()) if re.match(r"(licenses/|LICEN[CS]E)", file)]
    contained = CONTAINED.get(name, {})
    inside = [part for file, text in sorted(of_metadata.items()) if file.startswith("sboms/") for part in _inside(text)]
    return Part(
        kind="pypi",
        name=name,
        version=fields["Version"],
        licenses=fields["License-Expression"] or ", ".join(classifiers) or fields["License"] or "see its text",
        texts=(*texts, *map(_license_text, contained.values())),
        sha256=sha256(path.read_bytes()).hexdigest(),
        inside=tuple(sorted({*inside, *_unstated(contained, files)}, key=Part.order)),
    )


def _unstated(contained: dict[str, str], files: dict[str, bytes]) -> list[Part]:
    """Return what a wheel contains without saying so; only names of libraries tell a version."""
    versions = dict(re.findall(r"/lib(\w+)-\w+\.so\.([0-9.]+)", "\n".join(files)))
    return [
        Part("generic", name, versions.get(name, ""), _license_names(package)) for name, package in contained.items()
    ]


def _inside(text: bytes) -> list[Part]:
    """Return the components of a CycloneDX bill."""
    parts = []
    for component in json.loads(text).get("components", []):
        kind = re.match(r"pkg:(\w+)/", component.get("purl", ""))
        licenses = [_license_name(entry) for entry in component.get("licenses", [])]
        parts.append(
            Part(
                kind=kind[1] if kind else "generic",
                name=component["name"],
                version=component.get("version", ""),
                licenses=", ".join(licenses) or "not stated",
            )
        )
    return parts


def _license_name(entry: dict[str, object]) -> str:
    license_ = entry.get("license")
    if isinstance(license_, dict):
        return str(license_.get("id") or license_.get("name"))
    return str(entry.get("expression"))
