"""Tables of an archive, kept by Spark Declarative Pipelines.

The archive is made by `fumarole record --archive ARCHIVE`.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from fumarole import pipeline

spark = SparkSession.active()
ARCHIVE = os.environ["ARCHIVE"]
HOT = [{"name": "hot", "where": "Region = 'usa' and $value > 80", "publish": "alarms.hot.{Region}"}]


@dp.materialized_view
def readings() -> DataFrame:
    return pipeline.archive(spark, ARCHIVE, topic="volcanoes.>")


# In these functions Spark only describes frames. So metadata keys are named: nothing can be looked up.
@dp.materialized_view
def described() -> DataFrame:
    return pipeline.enrich(spark.read.table("readings"), pipeline.changes(spark, ARCHIVE), keys=["Region"])


@dp.materialized_view
def american() -> DataFrame:
    messages = spark.read.table("described")
    return messages.where(pipeline.where("Region = 'usa'", messages))


@dp.materialized_view
def by_region() -> DataFrame:
    return pipeline.rollup(spark.read.table("described"), "1 hour", by=["Region"])


@dp.materialized_view
def silences() -> DataFrame:
    return pipeline.gaps(spark.read.table("readings"), least="5 s")


@dp.materialized_view
def subtrees() -> DataFrame:
    return pipeline.traffic(spark.read.table("readings"), depth=1)


@dp.materialized_view
def shares() -> DataFrame:
    return pipeline.balance(spark.read.table("readings"))


# Alarms run Python, for which Spark asks for the columns of the frame. So this frame is made out here.
RAISED = pipeline.alarms(pipeline.archive(spark, ARCHIVE), HOT, pipeline.changes(spark, ARCHIVE))


@dp.materialized_view
def alarms() -> DataFrame:
    return RAISED
