"""Transcripts of everything that a client sees, byte for byte: what a change inside may not change outside.

    scripts/*.txt ──▶ stage: a broker on a clock that stands still ──▶ masks ──▶ records/*.txt

`python -m tests.transcripts.record` writes the records, `test_transcripts.py` plays the scripts again and compares. A
change that is meant changes the records in the same commit, so that the difference in git lists it.

    resp.txt      every RESP command, in RESP2 and in RESP3       `records/resp2.txt`, `records/resp3.txt`
    http.txt      every route of the queue and of monitoring      `records/http.txt`
    history.txt   one message or more of every kind that is stored   `records/history.txt`, `records/store.txt`
    opened.txt    a look at a store that was written once         `records/opened.txt`
    wire.txt      HTTP/1.1 on a socket, also what is no request   `records/wire.txt`
    usage.txt     command lines that ask for help, or are wrong   `records/usage.txt`

`store_of_first_record.txt` is never recorded again: it is what a store held when the transcripts began, and every later
broker must open it.
"""
