"""A live query in a process of its own, to be killed: `python -m tests.pipeline.live.driver URL FOLDER [once]`."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from fumarole import pipeline


def main(url: str, folder: str, once: bool) -> None:
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    pipeline.register(spark)
    reader = spark.readStream.format("fumarole").option("servers", url).option("topic", "n.*")
    reader = reader.option("buffer", f"{folder}/buffer").option("partitions", 2)
    rows = (reader if once else reader.option("maxRowsPerTrigger", 100_000)).load()
    writing = rows.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    trigger = writing.trigger(availableNow=True) if once else writing.trigger(processingTime="0 seconds")
    trigger.option("path", f"{folder}/out").start().awaitTermination()
    if once:
        found = spark.read.parquet(f"{folder}/out").selectExpr("cast(value as long) number").collect()
        print("\n".join(str(row.number) for row in found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "once" in sys.argv)
