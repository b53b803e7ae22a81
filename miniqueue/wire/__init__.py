"""Codecs of the two protocols, RESP and JSON lines: bytes in, lists out.

No socket, no clock, no event loop; must not know what a command does. The client uses the JSON codecs too.

Reading order: `resp_limits`, `resp_parser` with `resp_inline` (what the bytes of a client mean), `resp_reader` (a fast
way to the same result), and `resp_unknown` (before authentication). `resp_arguments` checks and splits the words of
commands; `resp_syntax` is the notation of their arguments.
`resp_replies` and `json_lines` encode replies; `receive_replies`, `stream_deliveries`, and `log_pages` encode messages
for both protocols, with `attribute_words` and `json_parts`. `json_bytes` is for bytes in JSON that need not be UTF-8.
`pair_stream` is the format of a backup.
"""
