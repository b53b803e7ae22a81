"""The read model `settings`: what each topic setting means, for the forms of the page; it never changes."""

import re
from collections.abc import Mapping
from typing import Final

from miniqueue.access.users import User
from miniqueue.core.settings.settings import DEFAULTS, FIELDS, TopicSettings, plain, text_of
from miniqueue.server.dashboard.models.model import Context, Make, Model

#: Settings that can only be increased.
_ONLY_GROW: Final = {"partitions"}
_WORDS: Final = re.compile(r"[a-z-]+((, | or )[a-z-]+)+")


def open_settings(_context: Context, _options: Mapping[str, bytes], _user: User | None) -> Make:
    """Open the catalogue."""
    return _make


SETTINGS: Final = Model(open_settings)


async def _make() -> dict[str, object]:
    return {"settings": [_shown(name) for name in FIELDS]}


def _shown(name: str) -> dict[str, object]:
    field, kind = FIELDS[name], _kind_of(name)
    return {
        "name": name,
        "value": plain(field.allowed),
        "default": plain(field.unset or text_of(DEFAULTS[name])),
        "meaning": plain(field.text),
        "kind": kind,
        "choices": re.split(", | or ", field.allowed) if kind == "choice" else None,
        "onlyGrows": name in _ONLY_GROW,
    }


def _kind_of(name: str) -> str:
    """Return how a person enters a value: `flag`, `choice`, `number`, `text`, `list` of numbers, or `json`."""
    type_ = str(TopicSettings.__annotations__[name].__origin__)
    if "bool" in type_:
        return "flag"
    if "tuple[tuple" in type_ or name == "schema":
        return "json"
    if "tuple" in type_:
        return "list"
    if "float" in type_ or "int" in type_:
        return "number"
    return "choice" if _WORDS.fullmatch(FIELDS[name].allowed) else "text"
