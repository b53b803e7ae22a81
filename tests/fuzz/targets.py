"""All targets, by name. To add one, write a module with `TARGET`, name it here, and plant a bug in `test_engine`."""

from tests.fuzz import (
    credentials,
    http_requests,
    json_streams,
    leveldb_files,
    message_lines,
    options,
    resp_connections,
    resp_reading,
    stored_values,
    words,
)

TARGETS = {
    module.TARGET.name: module.TARGET
    for module in (
        resp_reading,
        resp_connections,
        http_requests,
        json_streams,
        words,
        stored_values,
        leveldb_files,
        options,
        credentials,
        message_lines,
    )
}
