"""The files of LevelDB as bytes: logs, the manifest, and tables, read to find damage that LevelDB does not report.

Read `log` first: it contains the record format of logs and of the manifest, and the rule for a torn tail. Then
`log_changes` (the content of batches), `manifest`, `table`, and their helpers `blocks` and `crc32c`. This package must
not import plyvel or open a file by name; `set_aside` and `table_check` do that.
"""
