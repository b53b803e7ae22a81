"""Certificates, authentication, and access to files: the checks that keep other people out.

Read `exposure` first (which startups are rejected), then `file_access` and `private_files` (reading and writing the
files that the operator names), `file_watch` (changes of these), `certificates`, `local_authority`, and
`certificate_reading` (the files of TLS), `tls` (contexts, and reloading without a restart), `users_file`,
`user_source`, and `authentication` (users, and who a client is).

Knows the configuration, files, and `access`; must not import the broker, a protocol, or a listener.
"""
