"""The table `defaults` of the configuration file: the settings of new topics.

    [defaults]                   settings of all new topics
    max_deliveries = 5

    [defaults."jobs.*"]          of those whose names match
    lease_seconds = "5m"
    retention_seconds = "default"      the built-in default, whatever other tables say

A value that is a table belongs to the pattern that is its key, any other value to the setting. Which pattern wins:
`core.settings.defaults`.
"""

from collections.abc import Mapping

from miniqueue.core.settings.defaults import ALL, Members, TopicDefaults, check_defaults
from miniqueue.errors import RequestError
from miniqueue.errors.requests import InvalidSettingError
from miniqueue.server.process.escaping import escape

KEY = "defaults"


def parse_topic_defaults(table: object, source: str, problems: list[str]) -> TopicDefaults:
    """Return the settings of new topics; add a problem for each that is invalid.

    Args:
      table: the value of the key `defaults`.
      source: the file, for error messages.
      problems: what was found wrong in the configuration.
    """
    if not isinstance(table, Mapping):
        problems.append(f"{source} key {KEY}: invalid value; must be a table of topic settings")
        return TopicDefaults({})
    tables: dict[str, Members] = {}
    general = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    for pattern, members in ((ALL, general), *((name, value) for name, value in table.items() if name not in general)):
        settings = {name: None if value == "default" else value for name, value in members.items()}
        path = KEY if members is general else f'{KEY}."{escape(pattern)}"'
        tables[pattern] = {**tables.get(pattern, {}), **_valid(pattern, settings, f"{source} key {path}", problems)}
    return TopicDefaults({pattern: members for pattern, members in tables.items() if members})


def _valid(pattern: str, members: Members, origin: str, problems: list[str]) -> Members:
    """Return the settings that are valid; add a problem for each of the others."""
    remaining = dict(members)
    while True:
        try:
            check_defaults(pattern, remaining)
        except InvalidSettingError as error:
            problems.append(f"{origin}: {escape(str(error))}")
            if error.name not in remaining:
                return {}
            del remaining[error.name]
        except RequestError as error:  # the pattern, or the name of the dead-letter topic
            problems.append(f"{origin}: {escape(str(error))}")
            return {}
        else:
            return remaining
