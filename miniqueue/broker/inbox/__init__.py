"""The inbox: adds messages to topics that come from other shards, each once.

Only a broker that is one of several shards has an inbox. The room does not know how messages get here.
"""
