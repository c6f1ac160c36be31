"""A job on a cluster that publishes rows by the live sink. `test_shipping.py` runs it."""

import sys

from pyspark.sql import SparkSession

from fumarole import pipeline


def main(master: str, url: str) -> None:
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    spark = builder.config("spark.executor.memory", "512m").getOrCreate()
    pipeline.register(spark)
    rows = spark.range(10).selectExpr("concat('shipped.', id) AS topic", "cast(id AS string) AS payload")
    rows.write.format("fumarole").option("servers", url).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
