"""The data pipeline: messages captured into an archive of Parquet, played back, and read and written by Spark.

It needs more packages than the broker: `pip install 'fumarole[pipeline]'`.
"""
