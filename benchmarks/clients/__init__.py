"""Load clients, each run as a process of its own: for what redis-benchmark, h2load and curl cannot speak.

They print one JSON object. What goes wrong is the last line of the standard error, and the exit code is not 0.
"""
