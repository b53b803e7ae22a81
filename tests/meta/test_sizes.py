"""Functions stay small enough to be read in one go. A file may be as long as its one concept requires."""

import ast
import io
import tokenize
from functools import lru_cache

from tests.meta.modules import module_name, module_paths

MAX_FUNCTION_CODE_LINES = 50

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def test_no_function_has_more_code_lines_than_the_limit():
    lengths = {
        f"{module_name(path)}.{function.name}": len(code_lines(path.read_text(), function))
        for path in module_paths()
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert len(lengths) > 100
    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION_CODE_LINES} == {}


def test_comments_docstrings_and_blank_lines_are_no_code():
    source = 'def f():\n    """One.\n\n    Two.\n    """\n    # three\n\n    return (\n        4\n    )\n'
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert sorted(code_lines(source, function)) == [1, 8, 9, 10]


def code_lines(source: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[int]:
    """Return the numbers of the lines of a function that hold code."""
    assert function.end_lineno is not None
    first = function.body[0]
    has_docstring = isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str)
    docstring = range(first.lineno, (first.end_lineno or 0) + 1) if has_docstring else range(0)
    lines = _lines_with_tokens(source)
    return {n for n in range(function.lineno, function.end_lineno + 1) if n in lines and n not in docstring}


@lru_cache(maxsize=1)  # it is asked for the functions of one file after the other
def _lines_with_tokens(source: str) -> set[int]:
    return {
        number
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _NO_CODE
        for number in range(token.start[0], token.end[0] + 1)
    }
