"""A program on Spark Connect: every transform, and the live source, whose answers it prints. `test_connect.py` runs it."""

import json
import sys

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from fumarole import pipeline


def main(archive: str) -> None:
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
        answers["live"] = [["use spark.readStream" in str(error) or str(error)]]
    sys.stdout.write(json.dumps(answers) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
