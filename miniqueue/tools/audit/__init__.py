"""The checks of `miniqueue check`: one walk over all pairs of a store, in key order.

Read `store`, which passes each pair to the check of its subject, then `topic`, `group`, `log`, and `records`, and
`problems`, which collects the findings. The checks use keys and values (`storage.format`) and the rules of `core`. They
must not import a store: they do not know where the pairs come from.
"""
