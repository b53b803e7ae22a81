"""The read models: what the page shows beyond the API, by name, as JSON.

    /ui/data/topics?q=eu&sort=-ready ─▶ parse ─▶ open, with the user ─▶ make ─▶ reply
    /ui/live?view=topics%3Fq%3Deu ────▶ parse ─▶ open, with the user ─▶ make, make, make …

Opening checks the query and the rights. What is opened can be made any number of times; it may remember what it showed
first, such as the order of rows. A user sees only topics that the user may monitor.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from miniqueue.access.users import User
from miniqueue.broker import Broker
from miniqueue.errors import RequestError
from miniqueue.server.asgi.early_errors import UnknownPathError
from miniqueue.server.dashboard.models.facts import Facts
from miniqueue.server.security.authentication import Authenticator

#: Makes the content of a read model, without `nowMs`; raises MiniqueueError.
Make = Callable[[], Awaitable[dict[str, object]]]
#: Opens the model that a view names, `name?query`, for a user; raises MiniqueueError.
Open = Callable[[bytes, User | None], Make]


class Context(NamedTuple):
    """What read models are made of.

    Attributes:
      broker: the broker.
      facts: what is shown of the process.
      sign_in: the users; None if there are none.
      max_count: maximum number of rows on a page of a list.
    """

    broker: Broker
    facts: Facts
    sign_in: Authenticator | None
    max_count: int = 100


class Model(NamedTuple):
    """A read model.

    Attributes:
      open: returns what makes it, for a query and a user; raises MiniqueueError.
      parameters: the names of its parameters.
    """

    open: Callable[[Context, Mapping[str, bytes], User | None], Make]
    parameters: tuple[str, ...] = ()


class Models:
    """Opens read models.

    Args:
      context: what they are made of.
      models: the models by name.
    """

    def __init__(self, context: Context, models: Mapping[str, Model]) -> None:
        self._context = context
        self._models = models

    def open(self, view: bytes, user: User | None) -> Make:
        """Open the model that a view names: `name?query`.

        Raises UnknownPathError, RequestError, or what the model raises, such as NotPermittedError.
        """
        name, _, query = view.partition(b"?")
        model = self._models.get(name.decode("latin-1"))
        if model is None:
            raise UnknownPathError
        return model.open(self._context, options_of(query, model.parameters), user)


#: Maximum length of a text to search for. Patterns are compiled on the event loop, which takes 20 µs per `*`.
MAX_TEXT_BYTES: Final = 255
#: A parameter of every model, without a meaning: a view with another value is another view.
_SORTED: Final = "sorted"


def options_of(query: bytes, names: tuple[str, ...]) -> dict[str, bytes]:
    """Return the parameters of a query; raises RequestError for others than those with these names."""
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    options = {name: value.encode("latin-1") for name, value in pairs if name != _SORTED}
    if unknown := options.keys() - set(names):
        allowed = ", ".join(names) or "none"
        raise RequestError(f"invalid parameter {min(unknown)!r}; must be among {allowed}")
    return options


def number_of(options: Mapping[str, bytes], name: str, default: int, most: int) -> int:
    """Return a parameter that is a whole number from 1 to `most`; raises RequestError."""
    word = options.get(name, b"")
    if not word:
        return default
    if not word.isdigit() or len(word) > 9 or not 1 <= int(word) <= most:
        raise RequestError(f"invalid {name}; must be a whole number from 1 to {most}")
    return int(word)


def choice_of(options: Mapping[str, bytes], name: str, choices: tuple[str, ...], default: str = "") -> str:
    """Return a parameter that is one of some words, or the default if it is missing; raises RequestError."""
    word = options.get(name, b"").decode("latin-1") or default
    if word and word not in choices:
        raise RequestError(f"invalid {name}; must be one of {', '.join(choices)}")
    return word


def text_of(options: Mapping[str, bytes], name: str) -> str:
    """Return a parameter that is a text to search for; raises RequestError if it is longer than any name."""
    if len(options.get(name, b"")) > MAX_TEXT_BYTES:
        raise RequestError(f"invalid {name}; must be at most {MAX_TEXT_BYTES} bytes")
    return options.get(name, b"").decode("utf-8", "replace")


def topic_of(options: Mapping[str, bytes]) -> bytes:
    """Return the parameter `topic`; raises RequestError if it is missing."""
    if not options.get("topic"):
        raise RequestError("missing parameter; requires topic=")
    return options["topic"]
