"""The bill of materials in the form of CycloneDX, and the licenses of all parts as one text."""

import json
from collections.abc import Iterable
from typing import Any

from parts import Part

_LINE = "=" * 80


def sbom(version: str, parts: Iterable[Part]) -> str:
    """Return the bill; it contains no time and no random number, so that two builds have the same."""
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "miniqueue",
                "name": "miniqueue",
                "version": version,
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": [_component(part) for part in parts],
    }
    return json.dumps(bill, indent=1, ensure_ascii=False) + "\n"


def _component(part: Part, parent: str = "") -> dict[str, Any]:
    reference = parent + part.url()
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference,
        "name": part.name,
        "licenses": [{"license": {"name": part.licenses}}],
        "purl": part.url(),
    }
    if part.version:
        component["version"] = part.version
    if part.sha256:
        component["hashes"] = [{"alg": "SHA-256", "content": part.sha256}]
    if part.inside:
        component["components"] = [_component(inner, f"{reference}#") for inner in part.inside]
    return component


def third_party(parts: Iterable[Part]) -> str:
    """Return the licenses: first a list of all parts, then the texts."""
    parts = list(parts)
    lines = ["This file of miniqueue contains the following software of others.", ""]
    for part in parts:
        lines.append(f"{part.title()}: {part.licenses}")
        lines.extend(f"    {inner.title()}: {inner.licenses}" for inner in part.inside)
    for part in parts:
        for text in part.texts:
            lines += ["", _LINE, part.title(), _LINE, "", text.rstrip()]
    return "\n".join(lines) + "\n"
