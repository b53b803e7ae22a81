"""The process of the broker: its connections, its log, its interpreter, and its orderly stop.

Read `accepting` first (which connections are accepted), with `descriptors`, `connection_limits`, and `guests` (its
limits); then `logs`, with `escaping` and `repeats` (text that is safe to log, and not too often);
`service_manager` (what systemd hears), `runtime`, `stopping`, and `metric_rows` are independent.

Knows sockets and the interpreter; must not import a protocol, a server, or the configuration.
"""
