"""Counts live messages by topic with Structured Streaming: python spark_live.py SECONDS CHECKPOINT"""

import os
import sys

from pyspark.sql import DataFrame, SparkSession

from fumarole import pipeline

SERVERS = os.environ.get("FUMAROLE_SERVERS", "nats://127.0.0.1:4222")
seconds, checkpoint = sys.argv[1:]


def show(batch: DataFrame, _number: int) -> None:
    for row in batch.groupBy("topic").count().orderBy("topic").collect():
        print(row["topic"], row["count"], flush=True)


spark = SparkSession.builder.master("local[*]").getOrCreate()
pipeline.register(spark)
source = spark.readStream.format("fumarole").option("servers", SERVERS).option("topic", "volcanoes.>")
messages = source.option("buffer", f"{checkpoint}/buffer").option("listen", seconds).load()

# Takes what comes in this time, in one batch or several, and ends. Without `trigger` it goes on for ever.
query = messages.writeStream.foreachBatch(show).option("checkpointLocation", f"{checkpoint}/spark")
query.trigger(availableNow=True).start().awaitTermination()
