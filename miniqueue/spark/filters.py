"""Conditions of a query that make a read smaller: on topic, partition and offset.

They only say what need not be read. Spark still looks at every row itself, so what is read may be a little more: whole
partitions of other priorities. A condition on published_at makes no read smaller: offsets go up and times need not,
since the broker's clock may be set back, so messages of any time may lie anywhere in a log.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from miniqueue.spark.offsets import Range


@dataclass
class Narrowing:
    """What of a topic can matter.

    Attributes:
      topics: these alone; None for all.
      partitions: these numbers alone; None for all.
      first_offset: nothing in front of it.
      end_offset: nothing from it on; None for no end.
    """

    topics: set[str] | None = None
    partitions: set[int] | None = None
    first_offset: int = 0
    end_offset: int | None = None
    _names: frozenset[str] = field(default=frozenset({"topic", "partition", "offset"}), repr=False)

    def add(self, filters: Iterable[Filter]) -> None:
        """Take in conditions that all must hold; those that say nothing here do not matter."""
        for one in filters:
            name = getattr(one, "attribute", ("",))
            if len(name) == 1 and name[0] in self._names:
                self._add(one, name[0], getattr(one, "value", None))

    def _add(self, one: Filter, name: str, value: Any) -> None:  # noqa: ANN401 - of the column's type
        match one, name:
            case ((EqualTo() | In()), ("topic" | "partition")):
                values = set(value) if isinstance(one, In) else {value}
                self._keep(name, values)
            case EqualTo(), _:
                self._add(GreaterThanOrEqual((name,), value), name, value)
                self._add(LessThanOrEqual((name,), value), name, value)
            case ((GreaterThan() | GreaterThanOrEqual()), "offset"):
                self.first_offset = max(self.first_offset, value + isinstance(one, GreaterThan))
            case ((LessThan() | LessThanOrEqual()), "offset"):
                end = value + isinstance(one, LessThanOrEqual)
                self.end_offset = end if self.end_offset is None else min(self.end_offset, end)

    def _keep(self, name: str, values: set[Any]) -> None:
        if name == "topic":
            self.topics = values if self.topics is None else self.topics & values
        else:
            self.partitions = values if self.partitions is None else self.partitions & values

    def narrowed(self, ranges: Iterable[Range]) -> list[Range]:
        """Return what of the ranges can matter."""
        kept = [one for one in ranges if self._may_matter(one)]
        cut = [
            one._replace(
                start=max(one.start, self.first_offset),
                end=one.end if self.end_offset is None else min(one.end, self.end_offset),
            )
            for one in kept
        ]
        return [one for one in cut if one.size > 0]

    def _may_matter(self, one: Range) -> bool:
        number = int(one.partition.partition(".")[0])
        return (self.topics is None or one.topic in self.topics) and (
            self.partitions is None or number in self.partitions
        )
