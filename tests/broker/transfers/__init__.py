"""Tests of the rooms `broker/outbox` and `broker/inbox`."""
