"""Reads what a recorder captured, with Spark: python spark_archive.py ARCHIVE

The archive is made by `fumarole record --archive ARCHIVE`.
"""

import sys

from pyspark.sql import SparkSession

from fumarole import pipeline

spark = SparkSession.builder.master("local[*]").getOrCreate()
(archive,) = sys.argv[1:]

# Messages of a pattern, with the metadata that held when each was published.
messages = pipeline.archive(spark, archive, topic="volcanoes.>")
described = pipeline.enrich(messages, pipeline.changes(spark, archive))

# A query means the same here as in the broker, and runs as native columns.
italian = described.where(pipeline.where("Region = 'italy'", described))
for row in pipeline.rollup(italian, "1 hour").groupBy("topic").agg({"count": "sum", "max": "max"}).collect():
    print(row["topic"], row["sum(count)"], row["max(max)"])
