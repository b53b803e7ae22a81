"""What a load has left behind: messages in a topic, rows in a quarantine."""

import json
from pathlib import Path


def taken(client, topic: str) -> list:
    return client.receive(topic, count=10_000, autoack=True)


def quarantined(directory: Path) -> list[dict]:
    lines = [line for file in directory.rglob("part-*.json") for line in file.read_text().split("\n") if line]
    return sorted((json.loads(line) for line in lines), key=lambda row: row["row"])
