"""Writes the records again: `python -m tests.transcripts.record [name …]`; then read what git says has changed."""

import sys

from tests.transcripts.plays import FIRST_STORE, PLAYS, RECORDS, dump


def main(names: list[str]) -> None:
    RECORDS.mkdir(exist_ok=True)
    if not FIRST_STORE.exists():
        FIRST_STORE.write_text(dump())
    for name in names or PLAYS:
        text = PLAYS[name]()
        (RECORDS / name).write_text(text)
        print(f"{name}: {text.count(chr(10))} lines, {len(text)} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
