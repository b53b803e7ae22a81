"""All targets, by name. To add one, write a module with `TARGET`, name it here, and plant a bug in `test_engine`."""

from tests.commands.applying import topic_files
from tests.fuzz import (
    choices,
    credentials,
    http_requests,
    json_streams,
    leveldb_files,
    message_lines,
    options,
    resp_connections,
    resp_reading,
    stored_values,
    transactions,
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
        transactions,
        choices,
        topic_files,
    )
}
