"""What the query of an HTTP request says."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.types import Scope

from miniqueue.errors import RequestError


def query_of(scope: Scope, names: tuple[str, ...]) -> Mapping[str, str]:
    """Return the parameters of a request; raises RequestError for one that is not among `names`, or there twice."""
    pairs = parse_qsl(scope["query_string"].decode("utf-8", "replace"), keep_blank_values=True)
    options = dict(pairs)
    unknown = [name for name in options if name not in names]
    if unknown or len(options) < len(pairs):
        raise RequestError(f"the parameters of this route are {', '.join(names)}, each at most once")
    return options
