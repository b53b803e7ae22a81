"""The mapping from columns to the parts of a message, and which rows cannot become a message.

value     JSON of the row, or of the named columns; null stays null, so that all messages have the same members
key       a column, as text; a row with null has no key
headers   columns, as text, by the names of the headers; null adds no header
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs.files.columns import named_twice, quoted
from miniqueue.spark.jobs.files.text_lines import as_json

#: The broker's default limit.
MAX_MESSAGE_BYTES: Final = 1 << 20
#: The limits of the protocol for keys and names; for headers slightly less, since their names also count there.
MAX_KEY_BYTES, MAX_HEADERS_BYTES, MAX_NAME_BYTES = 1024, 60 << 10, 255


class ColumnMapping(NamedTuple):
    """A mapping from columns to a message.

    Attributes:
      key: the column of the key; "": none.
      columns: the columns of the payload; empty: all.
      headers: pairs of the name of a header and its column.
      max_message_bytes: maximum size of a message; longer rows are bad.
    """

    key: str = ""
    columns: Sequence[str] = ()
    headers: Sequence[tuple[str, str]] = ()
    max_message_bytes: int = MAX_MESSAGE_BYTES

    def judged(self, rows: DataFrame) -> DataFrame:
        """Add to rows of `read_files` the columns value, key, headers and cause: why the row is bad, or null.

        Raises ConfigError if a column does not exist, if a message would have one twice, or if the name of a header is
        invalid.
        """
        self._check(rows.select("row.*").columns)
        mapped = rows.select(
            "*", self._value().alias("value"), self._key().alias("key"), self._headers().alias("headers")
        )
        return mapped.withColumn("cause", self._cause())

    @property
    def asked(self) -> list[str]:
        """The columns that a message is made of, each once."""
        return list(dict.fromkeys([*self.columns, *(column for _, column in self.headers), *filter(None, [self.key])]))

    def _check(self, present: Sequence[str]) -> None:
        missing = [name for name in self.asked if name not in present]
        problems = [f"there is no column {name}; there are {', '.join(present)}" for name in missing]
        problems += [f"a message cannot have the column {name!r} twice" for name in named_twice(self.columns)]
        for name, _ in self.headers:
            if not 0 < len(name) <= MAX_NAME_BYTES or not all("!" <= char <= "~" for char in name):
                problems.append(f"a header cannot have the name {name!r}")
        if problems:
            raise ConfigError(problems)

    def _value(self) -> Column:
        columns = [F.col(f"row.{quoted(name)}") for name in self.columns]
        return as_json(F.struct(*columns)) if columns else F.col("json")

    def _key(self) -> Column:
        return F.col(f"row.{quoted(self.key)}").cast("string") if self.key else F.lit(None).cast("string")

    def _headers(self) -> Column:
        kind = "array<struct<name:string,value:binary>>"
        if not self.headers:
            return F.lit(None).cast(kind)
        pairs = [
            F.struct(F.lit(name).alias("name"), F.col(f"row.{quoted(column)}").cast("string").cast("binary"))
            for name, column in self.headers
        ]
        return F.filter(F.array(*pairs).cast(kind), lambda header: header["value"].isNotNull())

    def _cause(self) -> Column:
        sizes = F.transform("headers", lambda header: F.octet_length(header["value"]))
        size = F.aggregate(sizes, F.lit(0), lambda total, size: total + size)
        too_long = F.octet_length("value") > self.max_message_bytes
        return (
            F.when(F.col("fault").isNotNull(), F.col("fault"))
            .when(too_long, F.lit(f"the message is longer than {self.max_message_bytes} bytes"))
            .when(F.octet_length("key") > MAX_KEY_BYTES, F.lit(f"the key is longer than {MAX_KEY_BYTES} bytes"))
            .when(size > MAX_HEADERS_BYTES, F.lit(f"the headers are longer than {MAX_HEADERS_BYTES} bytes"))
        )
