"""Finds phrases that a reader has to read twice, in code and documentation.

    python -m tests.meta.english [path …]      prints them: file, line, pattern

The patterns come from the style that docs and docstrings had once: pronouns without a noun, adverbs that say
nothing, summary lines that do not stand alone, and variables that are named by a participle.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.meta.modules import ROOT

#: What is wrong with a line of text, by pattern.
PATTERNS: Final = {
    "a pronoun without a noun": re.compile(r"\b(to|for|of|by|from|than|with) who\b"),
    "a phrase that says little": re.compile(
        r"\b(had better|[Aa]s a rule|over and over|for ever|anew|likewise|but for)\b"
    ),
    "a passive of telling": re.compile(r"\b(is|are|was|were) told\b"),
    "a person where a client is meant": re.compile(r"\b(some|no|every)body\b"),
    "a summary that does not stand alone": re.compile(
        r'^\s+"""(Have|Let|Tell|Do the same|Of|That|Those|As|With)\b', re.MULTILINE
    ),
    "an attribute without a noun": re.compile(r"^ {4,12}\w+(, \w+)*: (of|that|as|by|whose|for|since|likewise)\b"),
    "a comment without a noun": re.compile(r" {2}# (of|for|as|by|with|since|that|also|else)\b"),
    "a condition without a subject": re.compile(r"\bwant (a|an|one|the|true|version|tables|add|-)"),
}
#: Names of variables and parameters that do not say what they hold.
NAMES: Final = frozenset({"found", "given", "gone", "one", "place", "those", "told", "what", "who"})


class Finding(NamedTuple):
    """One phrase; `line` counts from 1."""

    path: str
    line: int
    what_is_wrong: str
    text: str


def findings_in(path: Path, *, has_names: bool = True) -> Iterator[Finding]:
    """Return the findings in one file of Python or Markdown; with `has_names`, even names of variables."""
    source, name = path.read_text(), str(path.relative_to(ROOT))
    for number, line in enumerate(source.splitlines(), 1):
        for problem, pattern in PATTERNS.items():
            if pattern.search(line):
                yield Finding(name, number, problem, line.strip())
    if has_names and path.suffix == ".py":
        for node in ast.walk(ast.parse(source)):
            variable = _bound_name(node)
            if variable in NAMES:
                yield Finding(name, getattr(node, "lineno", 0), f"a variable named {variable}", variable)


def _bound_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return node.arg if isinstance(node, ast.arg) else ""


def readable_files(*roots: Path) -> list[Path]:
    """Return the files of Python and Markdown in these folders, and these files themselves."""
    return [
        path
        for root in roots
        for path in ([root] if root.is_file() else sorted((*root.rglob("*.py"), *root.rglob("*.md"))))
    ]


if __name__ == "__main__":
    default = [ROOT / name for name in ("miniqueue", "client", "docs", "README.md")]
    paths = [Path(word).resolve() for word in sys.argv[1:]] or default
    findings = [finding for path in readable_files(*paths) for finding in findings_in(path)]
    for finding in findings:
        print(f"{finding.path}:{finding.line}: {finding.what_is_wrong}: {finding.text}")
    print(len(findings), "findings")
