"""Spark's live source and sink: `pipeline.register(spark)`, then `format("fumarole")`."""
