"""Run jobs of Spark, one after the other, in a session that stays warm: a line with a job in, a line with a rate out.

    {"job": "load", "peer": "miniqueue", "port": 6379, "rows": 1000000, "key": ""}        {"rate": 123456.7}

The jobs are those of `miniqueue pipeline`, and the example; who takes part with another sink or source is registered in
place of miniqueue's. What they load is made before the first one: Parquet in as many files as Spark has cores.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from benchmarks.clients.spark_peers import STREAMS, NoSink, RedisStreams, stream_of, xadd
from benchmarks.servers import TOPIC
from examples.spark_publish import publish_partition
from miniqueue.errors import MiniqueueError
from miniqueue.spark import register
from miniqueue.spark.jobs.archive import Archive, archive_source
from miniqueue.spark.jobs.files.mapping import ColumnMapping
from miniqueue.spark.jobs.load import Load, load

#: With `{"text":""}` round it 100 bytes.
TEXT_BYTES = 89


def main() -> None:
    args = _arguments()
    spark = _session(args.folder)
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            print(json.dumps(_answer(spark, args.folder, Path(folder), asked)), flush=True)
    spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    return parser.parse_args()


def _session(folder: Path) -> SparkSession:
    builder = SparkSession.builder.master(f"local[{STREAMS}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.warehouse.dir", str(folder)).config("spark.driver.memory", "2g")
    spark = builder.config("spark.log.level", "OFF").getOrCreate()
    register(spark)
    return spark


def _answer(spark: SparkSession, shared: Path, folder: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    rows = _rows(spark, shared, asked["rows"])
    _install(spark, asked["peer"], asked["port"])
    try:
        if asked["job"] in ("read", "archive"):
            _load(spark, rows, folder, "")
        began = time.perf_counter()
        _run(spark, rows, folder, asked)
        return {"rate": asked["rows"] / (time.perf_counter() - began)}
    except (MiniqueueError, PySparkException) as error:
        return {"error": str(error).strip().partition("\n")[0]}


def _rows(spark: SparkSession, folder: Path, count: int) -> Path:
    """Return Parquet of so many rows: a key of 8 digits, and a text."""
    path = folder / f"{count}.parquet"
    if not path.exists():
        text = F.substring(F.sha2(F.col("id").cast("string"), 512), 1, TEXT_BYTES)
        key = F.lpad(F.col("id").cast("string"), 8, "0")
        spark.range(0, count, 1, STREAMS).select(key.alias("key"), text.alias("text")).write.parquet(str(path))
    return path


def _install(spark: SparkSession, peer: str, port: int) -> None:
    """Register the peer under the name `miniqueue`."""
    spark.conf.set("spark.miniqueue.url", f"redis://127.0.0.1:{port}")
    if peer == "miniqueue":
        register(spark)
    elif peer == "redis":
        spark.dataSource.register(type("Peer", (RedisStreams,), {"port": port}))
    else:
        spark.dataSource.register(NoSink)


def _run(spark: SparkSession, rows: Path, folder: Path, asked: Mapping[str, Any]) -> None:
    match asked["job"]:
        case "load":
            _load(spark, rows, folder, asked["key"])
        case "map":
            _map(spark.read.parquet(str(rows)), asked["peer"], asked["port"])
        case "read":
            source = spark.read.format("miniqueue").option("minPartitions", STREAMS)  # the number of streams of Redis
            source.load(TOPIC).write.format("noop").mode("overwrite").save()
        case "archive":
            archive_source(spark, Archive(TOPIC, str(folder / "archive")), _say_nothing)


def _load(spark: SparkSession, rows: Path, folder: Path, key: str) -> None:
    mapping = ColumnMapping(key=key, columns=("text",))
    load(spark, Load(TOPIC, [str(rows)], "parquet", uuid4().hex, str(folder / "bad"), mapping=mapping), _say_nothing)


def _map(rows: DataFrame, peer: str, port: int) -> None:
    messages = rows.select(F.to_json(F.struct("text")).alias("message"))
    if peer == "miniqueue":
        messages.foreachPartition(partial(publish_partition, host="127.0.0.1", port=port, topic=TOPIC))
    elif peer == "redis":
        messages.foreachPartition(partial(_xadd_partition, port=port))
    else:
        messages.foreachPartition(_drop_partition)


def _drop_partition(rows: Iterator[Row]) -> None:
    for _ in rows:
        pass


def _xadd_partition(rows: Iterator[Row], port: int) -> None:
    task = TaskContext.get()
    assert task is not None
    xadd(port, stream_of(task.partitionId()), ({"value": message} for (message,) in rows))


def _say_nothing(_line: str) -> None:
    """Take the progress of a job."""


if __name__ == "__main__":
    main()
