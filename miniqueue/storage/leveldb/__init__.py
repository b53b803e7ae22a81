"""The durable store: a LevelDB directory, its lock and marker, and the checks that LevelDB does not make.

Read `store`, which serves the port, then `opening`, which lists the steps of a startup and the modules for each step,
and `directory`, which lists the files. `database` is the only module that imports plyvel. `view` reads a store without
changing it, and `copy` creates a store from pairs, both for tools. `mapped_tables` limits how much of the tables is in
RAM. `files` parses LevelDB's files as bytes. This package knows no values of the broker, and of its keys only the range
that a startup reads.
"""
