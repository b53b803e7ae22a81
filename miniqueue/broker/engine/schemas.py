"""The JSON Schemas of topics: compiled when they are needed, and refusing messages that do not fit.

    topic.settings.schema ─▶ compiled, kept while it is among the last used ─▶ fits · SchemaError: /items/0/price: …

The validator is an extra, which is imported when the first schema is used. Patterns run in time linear in the text,
and it fetches nothing. The text of a schema is its key, so that topics share it.

A check ends within the iteration of the event loop in which it begins, so its work is bounded: the size of the messages
times the weight of the schema. That is the number of its values; a pattern counts as the values that take as long.
A caller that checks several lists of messages in one iteration passes on what was spent.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from itertools import accumulate
from typing import Any, Final, NamedTuple

import orjson
import structlog

from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.settings.defaults import TopicDefaults
from miniqueue.core.settings.schema import REPEATING, measure_schema, without_lists
from miniqueue.errors.requests import InvalidSettingError, NoValidatorError, SchemaError

log = structlog.get_logger()

#: Maximum size of the compiled schemas that are kept, as it is estimated; the last one is kept even if it is larger.
MAX_KEPT_BYTES: Final = 32 << 20
#: Size of a compiled schema, apart from its patterns, and for each byte of its text.
SCHEMA_BYTES: Final = 4 << 10
BYTES_PER_BYTE: Final = 32
#: Maximum size of a compiled pattern, tried in this order, with the number of values that would take as long; and of
#: what a pattern needs when it runs.
PATTERN_WEIGHTS: Final = ((4 << 10, 128), (16 << 10, 512), (64 << 10, 2048))
MAX_PATTERN_BYTES: Final = 64 << 10
MAX_STATE_BYTES: Final = 128 << 10
#: Maximum size of messages times the weight of their schema: 5 ms, or 20 ms for unusual schemas.
MAX_WORK: Final = 8 << 20
#: Maximum size of a message in which the place of an error is looked for: the validator copies what is wrong, 10 ms.
MAX_EXPLAINED_BYTES: Final = 128 << 10
#: Maximum length of what an error shows of a place, and of a reason.
MAX_SHOWN_CHARS: Final = 200
MISSING: Final = "this broker has no validator; run pip install 'miniqueue[schema]'"
_LIBRARY: Final = "jsonschema_rs"
#: What is wrong if no place is found; also if there are keywords about what no schema evaluates.
_ALTERNATIVES: Final = "/: the value fits none, or more than one, of several schemas"
_UNEVALUATED: Final = f"{_ALTERNATIVES}, or contains what none of them evaluates"


class _Compiled(NamedTuple):
    """A schema that can be checked.

    Attributes:
      validator: the validator of the library.
      explaining: a validator that finds the place of an error in little memory; None if there is none.
      unexplained: what is wrong if that validator finds nothing.
      weight: the number of values of a simple schema that takes as long.
      size_bytes: estimated size in memory.
    """

    validator: Any
    explaining: Any
    unexplained: str
    weight: int
    size_bytes: int


class Schemas:
    """Compiled schemas, by their text.

    Attributes:
      size_bytes: estimated size of the compiled schemas.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Compiled] = OrderedDict()
        self._last_fitting: tuple[str, bytes] | None = None  # a schedule publishes the same message repeatedly
        self.size_bytes = 0

    def restored(self, content: StoreContent) -> None:
        """Report topics whose messages cannot be checked."""
        names = sorted(topic.name for topic in content.topics if topic.settings.schema is not None)
        if names and not _has_validator():
            first = names[0].decode("utf-8", "replace")
            log.error("topics with a schema accept no messages", problem=MISSING, topics=len(names), first=first)

    def check_setting(self, schema: str) -> None:
        """Raise InvalidSettingError if a topic cannot have this schema."""
        try:
            self._get(schema)
        except NoValidatorError as exc:
            raise InvalidSettingError("schema", f"unset: {MISSING}") from exc

    def check_defaults(self, defaults: TopicDefaults) -> None:
        """Raise InvalidSettingError if new topics cannot have the schema of a default."""
        for schema in defaults.schemas():
            self.check_setting(schema)

    def check(self, schema: str, payloads: Sequence[bytes], spent_work: int = 0) -> int:
        """Return the work of this check and of those before it.

        Raises SchemaError if a message does not fit, or all are too large together; NoValidatorError if that cannot be
        known.
        """
        compiled = self._get(schema)
        size_bytes = sum(map(len, payloads))
        work = spent_work + size_bytes * compiled.weight
        if work > MAX_WORK:
            max_bytes = (MAX_WORK - spent_work) // compiled.weight
            first = bisect_right(list(accumulate(map(len, payloads))), max_bytes)
            raise SchemaError(f"too large for the schema of the topic: {size_bytes} bytes, not {max_bytes}", first)
        for index, payload in enumerate(payloads):
            fitting = schema, payload
            if fitting == self._last_fitting:
                continue
            if problem := _problem(compiled, payload):
                raise SchemaError(problem, index, len(payloads))
            self._last_fitting = fitting
        return work

    def _get(self, schema: str) -> _Compiled:
        compiled = self._kept.get(schema)
        if compiled is None:
            compiled = self._kept[schema] = _compile(schema)
            self.size_bytes += compiled.size_bytes
            while self.size_bytes > MAX_KEPT_BYTES and len(self._kept) > 1:
                self.size_bytes -= self._kept.popitem(last=False)[1].size_bytes
        self._kept.move_to_end(schema)
        return compiled


def _has_validator() -> bool:
    try:
        import_module(_LIBRARY)
    except ImportError:
        return False
    return True


def _compile(schema: str) -> _Compiled:
    try:
        library = import_module(_LIBRARY)
    except ImportError as exc:
        raise NoValidatorError(MISSING) from exc
    content = orjson.loads(schema)
    size = measure_schema(content)
    for name in ("$id", "id"):  # nothing refers to them, and the id of another schema could be mistaken for that one
        if isinstance(content.get(name), str):
            del content[name]
    try:
        weights = {pattern: _weight_of(library, pattern) for pattern in size.patterns}
        validator = _validator(library, content, MAX_PATTERN_BYTES)
    except ValueError as exc:
        reason = _shown(getattr(exc, "message", str(exc)))
        raise InvalidSettingError("schema", f"a JSON Schema: {reason}") from exc
    size_bytes = SCHEMA_BYTES + BYTES_PER_BYTE * len(schema) + len(weights) * (MAX_PATTERN_BYTES + MAX_STATE_BYTES)
    weight = size.weight + sum(weights[pattern] * times for pattern, times in size.patterns.items())
    unexplained = _UNEVALUATED if any(name in schema for name in REPEATING) else _ALTERNATIVES
    return _Compiled(validator, _explaining(library, content, validator), unexplained, weight, 2 * size_bytes)


def _validator(library: Any, content: object, max_pattern_bytes: int) -> Any:  # noqa: ANN401 - it has no types here
    patterns = library.RegexOptions(size_limit=max_pattern_bytes, dfa_size_limit=MAX_STATE_BYTES)
    return library.validator_for(content, mask="the value", pattern_options=patterns, offline=True)


def _weight_of(library: Any, pattern: str) -> int:  # noqa: ANN401 - as above
    """Return how many values a pattern counts as; raises ValueError if it is too large, or none."""
    for max_bytes, weight in PATTERN_WEIGHTS[:-1]:
        with suppress(ValueError):
            _validator(library, {"pattern": pattern}, max_bytes)
            return weight
    max_bytes, weight = PATTERN_WEIGHTS[-1]
    _validator(library, {"pattern": pattern}, max_bytes)
    return weight


def _explaining(library: Any, content: object, validator: Any) -> Any:  # noqa: ANN401 - as above
    """Return a validator that finds errors without lists of all that is wrong; None if there can be none."""
    plain = without_lists(content)
    if plain == content:
        return validator
    try:
        return _validator(library, plain, MAX_PATTERN_BYTES)
    except ValueError:  # a reference leads to one of several schemas, which are elsewhere now
        return None


def _problem(compiled: _Compiled, payload: bytes) -> str:
    """Return where and why a message does not fit; "" if it does."""
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return "/: not JSON"
    try:
        if compiled.validator.is_valid(value):
            return ""
        if len(payload) > MAX_EXPLAINED_BYTES:
            return f"/: the message does not fit, and is too large to say where: more than {MAX_EXPLAINED_BYTES} bytes"
        if compiled.explaining is not None:
            compiled.explaining.validate(value)
    except ValueError as exc:  # what the validator raises
        path = "".join(f"/{_escaped(part)}" for part in getattr(exc, "instance_path", ()))
        return f"{_shown(path) or '/'}: {_reason(exc)}"
    return compiled.unexplained


def _reason(error: ValueError) -> str:
    kind = getattr(error, "kind", None)
    if kind is not None and kind.name == "not":  # the text is that of the schema, and not of the one that was set
        return "the value fits none of several schemas, or one that it must not fit"
    return _shown(getattr(error, "message", str(error)))


def _escaped(part: str | int) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _shown(text: str) -> str:
    line = text.partition("\n")[0]
    return "".join(char if char.isprintable() else "?" for char in line[:MAX_SHOWN_CHARS])
