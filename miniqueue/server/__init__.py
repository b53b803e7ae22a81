"""The broker process: everything around the broker that makes it a server.

Read `run` first: it composes the rooms. `config` is read at startup; `security` and `process` decide who can connect;
`http` and `resp` are the two protocols, whose common replies are in `views`; `monitor` is the monitoring port; `asgi`
is common to `http` and `monitor`; `hypercorn` and `granian` are the HTTP servers.
"""
