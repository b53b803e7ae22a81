"""Hostile clients at work beside innocent ones: what they cost the innocent, and the memory of the broker.

    clients       what hostile clients do, each in a process of its own
    innocent      a producer and a consumer, and how fast they are
    victim        a broker with everything that hostile clients look for
    beside        one hostile client at a time: lag, rates and latencies, beside those of the calm
    crowds        two hundred clients at a time that all want messages of 1 MiB: the memory of the broker
    mix           a random mix of all of them, for an hour; nothing confirmed may be lost

A hostile client takes processor time on this machine, too. It is the least important process of the machine and stays
on one processor, so that the broker has one for itself where there are two.
"""
