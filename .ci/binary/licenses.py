"""The licenses of all parts as one text."""

from collections.abc import Iterable

from parts import Part

_LINE = "=" * 80


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
