"""Names of columns: in a schema, and quoted for expressions; does not know files.

A name occurs only once: a message with two members of one name would mean different things to different readers. Names
that differ in case are different names, as they are in text files. If Spark cannot distinguish them, as in Parquet, it
refuses them itself.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from miniqueue.errors import ConfigError


def schema_of(text: str) -> StructType:
    """Parse a schema, as in `id long, name string`.

    Raises ConfigError if it has no columns, or a column or a field of a column twice.
    """
    columns = StructType.fromDDL(text)
    if not isinstance(columns, StructType) or not columns.names:  # fromDDL also parses a single type
        raise ConfigError([f"invalid schema: {text!r}; must name columns, as in 'id long, name string'"])
    if twice := [name for struct in _structs_in(columns) for name in named_twice(struct.names)]:
        raise ConfigError([f"the schema has the column {name!r} twice" for name in twice])
    return columns


def named_twice(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def quoted(name: str) -> str:
    """Quote a column's name for expressions; it can contain any characters."""
    return f"`{name.replace('`', '``')}`"


def _structs_in(kind: DataType) -> Iterator[StructType]:
    """Return all structs in a type, including the type itself."""
    parts: list[DataType] = []
    if isinstance(kind, StructType):
        yield kind
        parts = [field.dataType for field in kind]
    elif isinstance(kind, ArrayType):
        parts = [kind.elementType]
    elif isinstance(kind, MapType):
        parts = [kind.keyType, kind.valueType]
    for part in parts:
        yield from _structs_in(part)
