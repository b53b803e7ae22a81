"""Settings of the broker process: from command line, environment, and file to one checked `Config`.

Read `settings_table` first (every setting), then `setting` and `durations` (one row, and the parser of each kind of
value), `sources` (the texts that operators wrote), `tables` (the formats of the file), `topic_defaults` (the settings
of new topics), `config` (the values, checked as a whole), `usage` (the table as text), and `service_variables`
(variables of Kubernetes that only look like settings).

Imports no other part of the server except `process.escaping`: nothing here opens a socket, a certificate, or the
store, and the only file that it reads is the one that `-config` names.
"""
