"""The outbox: messages that have left their topic, and are on their way to a topic of another shard.

Only a broker that is one of several shards has an outbox. The room knows neither how messages get to the other shard
nor what becomes of them there: whoever carries them asks for a parcel, and reports which transfers have arrived.
"""
