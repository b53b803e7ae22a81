"""Messages as output: payloads, one on each line, or objects with everything that is known of a message.

text     the payload and a line feed; with -0 a NUL instead, for payloads that contain line feeds
jsonl    an object on each line; `json` is the same here, since there is no end that could close an array

On a terminal, which would execute them, control characters of payloads are escaped.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from miniqueue.commands.shell.flags import flag
from miniqueue.commands.shell.output import Output
from miniqueue.commands.shell.texts import json_message, terminal_payload
from miniqueue.commands.shell.values import Choice
from miniqueue_client import Message

F = TypeVar("F", bound=Callable[..., Any])
#: Writes a message, now.
Write = Callable[[Message], None]


def with_message_output(function: F) -> F:
    """Add the flags -o and -0; the parameters are `form` and `null`."""
    add_null = flag("-0", "--null", is_flag=True, help="End each payload with a NUL, not with a line feed.")
    add_form = flag(
        "-o",
        "--output",
        "form",
        type=Choice(["text", "json", "jsonl"]),
        default="text",
        show_default=True,
        help="Payloads, or an object with all attributes on each line.",
    )
    return add_null(add_form(function))


def message_writer(form: str, null: bool) -> Write:
    """Return what writes messages in a form."""
    output = Output()
    end = b"\0" if null else b"\n"

    def write(message: Message) -> None:
        if form == "text":
            payload = terminal_payload(message.payload) if output.is_terminal else message.payload
            output.write_bytes(payload + end)
        else:
            output.objects([json_message(message)])

    return write
