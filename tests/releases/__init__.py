"""What releases wrote and offered, for the versions after them (docs/compatibility.md).

    <version>.tar.gz     a data directory          from the history of the transcripts: every kind of key, every setting
    <version>.jsonl      what the release exported of it
    <version>.json       the names that clients and operators use: flags, commands, routes, codes, metrics, calls

`make` writes the files of the present version. Once it is released, they are never written again: `test_stores` opens
the store with the present code, and `test_names` looks for the names in it.
"""
