"""Conditions of a query that make a read smaller: on topic, partition and offset.

They only exclude what need not be read; Spark still checks every row. A read may therefore contain more, such as
partitions of other priorities. A condition on published_at makes no read smaller: offsets increase but times need not,
since the broker's clock can be set back, so messages of any time can be anywhere in a log.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from miniqueue.spark.offsets import Range


@dataclass
class Narrowing:
    """The messages that can satisfy the conditions of a query.

    Attributes:
      topics: the only topics; None: all.
      partitions: the only partitions, by number; None: all.
      first_offset: the first offset.
      end_offset: the offset after the last one; None: no end.
    """

    topics: set[str] | None = None
    partitions: set[int] | None = None
    first_offset: int = 0
    end_offset: int | None = None
    _names: frozenset[str] = field(default=frozenset({"topic", "partition", "offset"}), repr=False)

    def add(self, filters: Iterable[Filter]) -> None:
        """Add conditions, all of which must hold; conditions on other columns are ignored."""
        for condition in filters:
            name = getattr(condition, "attribute", ("",))
            if len(name) == 1 and name[0] in self._names:
                self._add(condition, name[0], getattr(condition, "value", None))

    def _add(self, condition: Filter, name: str, value: Any) -> None:  # noqa: ANN401 - of the column's type
        match condition, name:
            case ((EqualTo() | In()), ("topic" | "partition")):
                values = set(value) if isinstance(condition, In) else {value}
                self._keep(name, values)
            case EqualTo(), _:
                self._add(GreaterThanOrEqual((name,), value), name, value)
                self._add(LessThanOrEqual((name,), value), name, value)
            case ((GreaterThan() | GreaterThanOrEqual()), "offset"):
                self.first_offset = max(self.first_offset, value + isinstance(condition, GreaterThan))
            case ((LessThan() | LessThanOrEqual()), "offset"):
                end = value + isinstance(condition, LessThanOrEqual)
                self.end_offset = end if self.end_offset is None else min(self.end_offset, end)

    def _keep(self, name: str, values: set[Any]) -> None:
        if name == "topic":
            self.topics = values if self.topics is None else self.topics & values
        else:
            self.partitions = values if self.partitions is None else self.partitions & values

    def narrowed(self, ranges: Iterable[Range]) -> list[Range]:
        """Return the parts of the ranges that can satisfy the conditions."""
        kept = [wanted for wanted in ranges if self._may_match(wanted)]
        cut = [
            wanted._replace(
                start=max(wanted.start, self.first_offset),
                end=wanted.end if self.end_offset is None else min(wanted.end, self.end_offset),
            )
            for wanted in kept
        ]
        return [wanted for wanted in cut if wanted.size > 0]

    def _may_match(self, wanted: Range) -> bool:
        number = int(wanted.partition.partition(".")[0])
        return (self.topics is None or wanted.topic in self.topics) and (
            self.partitions is None or number in self.partitions
        )
