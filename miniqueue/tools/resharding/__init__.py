"""The content of a store, divided among another number of shards, for `miniqueue reshard`.

Read `plan`, which says where each topic goes, and under which numbers, then `dividing`, which passes all pairs on to
their shards. They use keys and values (`storage.format`) and the rules of `core`. They must not import a store: they
do not know where the pairs come from, or where they go.
"""
