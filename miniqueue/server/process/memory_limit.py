"""The memory of this process, and how much there is for it: that of its control group, or of the machine."""

import os
from pathlib import Path
from typing import Final

#: The part of the memory that clients may make the broker use, unless the operator sets another size.
DEFAULT_PART: Final = 1 / 2
_CGROUP: Final = Path("/", "sys", "fs", "cgroup")
_OWN_CGROUP: Final = Path("/", "proc", "self", "cgroup")
_STATM: Final = Path("/", "proc", "self", "statm")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def default_bytes() -> int:
    """Return the default of the memory for clients: half of what there is for the process."""
    return int(available_bytes() * DEFAULT_PART)


def available_bytes(cgroup: Path = _CGROUP, own_cgroup: Path = _OWN_CGROUP) -> int:
    """Return the memory of the machine, or the limit of the control group of this process if that is lower."""
    limits_bytes = [_PAGE_BYTES * os.sysconf("SC_PHYS_PAGES")]
    for folder in _folders(cgroup, own_cgroup):
        for name in ("memory.max", "memory.limit_in_bytes"):  # version 2, version 1
            limits_bytes += _number_in(folder / name)
    return min(limits_bytes)


def own_bytes() -> int:
    """Return the memory of this process that the system cannot take back: without pages of files."""
    _, resident_pages, shared_pages, *_ = map(int, _STATM.read_text().split())
    return (resident_pages - shared_pages) * _PAGE_BYTES


def _folders(cgroup: Path, own_cgroup: Path) -> list[Path]:
    """Return the folders of the control groups that this process belongs to, those that contain them included."""
    folders = [cgroup, cgroup / "memory"]
    try:
        lines = own_cgroup.read_text().splitlines()
    except OSError:
        return folders
    for line in lines:
        _, controllers, path = line.split(":", 2)
        root = cgroup / "memory" if "memory" in controllers.split(",") else cgroup
        group = root / path.lstrip("/")
        folders += [group, *(parent for parent in group.parents if parent.is_relative_to(root))]
    return folders


def _number_in(file: Path) -> list[int]:
    """Return the number in a file; nothing if there is none, or it is no number, such as `max`."""
    try:
        text = file.read_text().strip()
    except OSError:
        return []
    return [int(text)] if text.isdigit() and int(text) > 0 else []
