"""Every encoding that is persisted: the grammar of the keys and the forms of the values.

This package works on bytes and on the types of `core`; it must not import a store. Read `keys`, which contains the
grammar and the layouts of all keys, then `values`, which contains the forms of all values. The other modules make the
keys and values of one subject each.
"""
