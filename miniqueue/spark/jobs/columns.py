"""Columns by their names: those of a schema, and how expressions have them; knows no file.

A name is one name once: a message that had a member twice would be another one to each reader. Names that differ in
case are different names, as they are in text; where Spark takes them for one, as in Parquet, it refuses them itself.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from miniqueue.errors import ConfigError


def schema_of(text: str) -> StructType:
    """Return the columns that a text names, as in `id long, name string`.

    Raises ConfigError where it names none, or one twice, also in a column.
    """
    columns = StructType.fromDDL(text)
    if not isinstance(columns, StructType) or not columns.names:  # it also takes the name of a single type
        raise ConfigError([f"a schema names columns, as in 'id long, name string', not {text!r}"])
    if twice := [name for struct in _structs_in(columns) for name in named_twice(struct.names)]:
        raise ConfigError([f"the schema has the column {name!r} twice" for name in twice])
    return columns


def named_twice(names: Sequence[str]) -> list[str]:
    """Return the names that are there more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def quoted(name: str) -> str:
    """Return a column's name as expressions have it, with whatever characters."""
    return f"`{name.replace('`', '``')}`"


def _structs_in(kind: DataType) -> Iterator[StructType]:
    """Return all structs in a type, and itself if it is one."""
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
