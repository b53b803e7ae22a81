r"""Quotes in CSV, strictly as RFC 4180 has them: round a whole field, and doubled in it. Knows no files and no Spark.

    1,"a ""b"", c",d       a row
    1,"a                   leaves a quote open: the row goes on in the next line
    1,"a"b                 no row: text behind a closing quote
    1,5" pipe              no row: a quote in a field that does not begin with one

The patterns mean the same to Java and to Python, and neither goes back in them, so that long fields are no fault.
"""

import re
from typing import Final

#: A field with quotes round it.
QUOTED: Final = r'"[^"]*+(?:""[^"]*+)*+"'
_FIELD: Final = rf'(?:{QUOTED}|[^",\r\n]*+)'
#: The whole of a row.
ROW: Final = rf"{_FIELD}(?:,{_FIELD})*+"
#: A line, or more of them, of which the last leaves a quote open. Behind a field that is broken quotes are in pairs.
LEFT_OPEN: Final = rf'(?:(?:{QUOTED}(?=,)|(?:[^",][^,]*+)?+),)*+"[^"]*+(?:"[^"]*+"[^"]*+)*+'
#: What a text begins with that has something behind a closing quote.
BEHIND_A_QUOTE: Final = rf"(?:{_FIELD},)*+{QUOTED}"

_IS_LEFT_OPEN: Final = re.compile(LEFT_OPEN.encode())


def is_left_open(line: bytes, *, is_open: bool) -> bool:
    """Return whether a quote is open behind a line, where one is open in front of it, or none."""
    if b'"' not in line:
        return is_open
    return _IS_LEFT_OPEN.fullmatch(b'"' + line if is_open else line) is not None
