"""Programs in several languages, each with an unmodified Redis client, that all go through one scenario.

    program port topic protocol      publishes to `topic`, consumes, and moves messages to `topic-billing` and
                                     `topic-audit` in transactions; prints one line for each step, see `scenario.py`

The part of a program between "docs:" and "docs end" is the example of docs/clients.md.
"""
