"""A program on Spark Connect: every transform; with the address of a broker, the live source and the sink.

It prints what came of each. `test_connect.py` runs it.
"""

import json
import sys

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from fumarole import pipeline


def read_live(spark: SparkSession, url: str) -> bool:
    """Does the source read what the sink publishes?"""
    rows = spark.readStream.format("fumarole").option("servers", url).option("topic", "live.>").load()
    query = rows.writeStream.format("memory").queryName("heard").start()
    published = spark.range(10).selectExpr("concat('live.', id) AS topic", "cast(id AS string) AS payload")
    while not (heard := spark.table("heard").where("value = 9").count()):  # until the source listens
        if (error := query.exception()) is not None:
            raise error
        published.write.format("fumarole").option("servers", url).mode("append").save()
    query.stop()
    return heard > 0


def main(archive: str, url: str | None = None) -> None:
    spark = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    messages = pipeline.archive(spark, archive)
    frames: dict[str, DataFrame] = {
        "rollup": pipeline.rollup(messages).select("count", "mean"),
        "gaps": pipeline.gaps(messages, least="5 s").select("producer", "seconds"),
        "traffic": pipeline.traffic(messages, depth=0).select("messages"),
        "balance": pipeline.balance(messages).select("recorder", "share"),
        "summary": pipeline.summary(messages).select("messages", "topics"),
        "where": pipeline.archive(spark, archive, where="Region = 'usa'").groupBy("topic").count(),
        "enrich": pipeline.enrich(messages, pipeline.changes(spark, archive))
        .selectExpr("metadata.Region.text")
        .limit(1),
    }
    answers = {name: [list(row) for row in frame.collect()] for name, frame in frames.items()}
    pipeline.register(spark)
    try:
        spark.read.format("fumarole").load().collect()
    except PySparkException as error:
        answers["no stream"] = [["use spark.readStream" in str(error) or str(error)]]
    if url is not None:
        answers["live"] = [[read_live(spark, url)]]
    sys.stdout.write(json.dumps(answers) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
