"""Archived files of an object store where Spark has no connector: pyarrow reads them, in Spark's tasks.

Rows reach Spark as Arrow batches. It is slower than Spark's own reader: each row passes through a Python process, and
every column is read. So it is used only where Spark cannot read the store itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql.pandas.types import to_arrow_schema

from fumarole.pipeline.archive.schema import SINCE_VERSION
from fumarole.pipeline.archive.seals import SealedFile
from fumarole.pipeline.shipping import ship

BATCH_ROWS: Final = 65_536
MOST_TASKS: Final = 200
SLOWER: Final = (
    "Spark has no connector for S3 here, so pyarrow reads the files, which is slower; "
    "--conf spark.jars.packages=org.apache.spark:spark-hadoop-cloud_2.13:%s gives it one"
)
log = logging.getLogger("fumarole.pipeline")


def read_by_arrow(spark: SparkSession, files: Sequence[SealedFile], schema: types.StructType) -> DataFrame:
    """The rows of these files. The workers get the file systems as they were opened, with their credentials."""
    log.warning(SLOWER, spark.version)
    ship(spark)
    tasks = min(len(files), MOST_TASKS)
    numbers = spark.range(0, len(files), 1, tasks)
    return numbers.mapInArrow(_reader(files, to_arrow_schema(schema, timezone="UTC")), schema)


def _reader(
    files: Sequence[SealedFile], wanted: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Of Spark's rows, each of which is the number of a file, the rows of these files."""
    places = [(file.system, file.path_in_system) for file in files]

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                system, path = places[number]
                assert system is not None
                with system.open_input_file(path) as source:
                    yield from rows_of(pq.ParquetFile(source, page_checksum_verification=True), wanted)

    return read


def rows_of(source: pq.ParquetFile, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file, with the columns that were added since it was written."""
    there = [name for name in wanted.names if name in source.schema_arrow.names]
    for batch in source.iter_batches(BATCH_ROWS, columns=there):
        columns = [
            batch.column(field.name) if field.name in there else pa.nulls(batch.num_rows, field.type)
            for field in wanted
            if field.name in there or field.name in SINCE_VERSION
        ]
        yield pa.record_batch(columns, wanted.names).cast(wanted)
