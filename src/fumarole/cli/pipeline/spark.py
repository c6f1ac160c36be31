"""A Spark session for a command, and its failures as one line."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from pyspark.sql import SparkSession

from fumarole.cli.pipeline.options import RemoteSparkOptions, SparkOptions, WarmSparkOptions
from fumarole.cli.pipeline.warm import NoSessionError, hand_over, say_cold
from fumarole.cli.progress import waiting
from fumarole.cli.terminal import INTERRUPTED, MISUSED, fail, trouble_text
from fumarole.core.errors import FumaroleError, PatternError
from fumarole.core.query.errors import QueryError
from fumarole.pipeline.errors import TimeError
from fumarole.pipeline.jobs.batch import Part
from fumarole.pipeline.jobs.failures import FAILURES, in_short
from fumarole.pipeline.jobs.spark import check_can_write, check_java, check_master, remote_session, session

resident: Callable[[str], SparkSession] | None = None
"""Set in a warm session: gives a command its Spark session (`cli.pipeline.resident`)."""


@contextmanager
def spark_session(spark_options: SparkOptions, name: str, part: Part | None = None) -> Iterator[SparkSession]:
    """A Spark session for a command, on a part of an archive. Its errors become one line."""
    settings = dict(_setting(text) for text in spark_options.conf or [])
    if part is not None:
        with told():
            part.check()  # check what needs no Spark first, because Spark takes seconds to start
    if resident is not None:
        with told():
            yield resident(f"fumarole {name}")
        return
    remote = spark_options.remote if isinstance(spark_options, RemoteSparkOptions | WarmSparkOptions) else None
    if remote is not None:
        with told(), _stopped(remote_session(remote, settings)) as spark:
            yield spark
        return
    with told():
        check_master(spark_options.master)
        check_java()
    if (ask := hand_over.get()) is not None:
        try:
            raise typer.Exit(ask())
        except NoSessionError as error:
            say_cold(error)
    folder = Path(tempfile.mkdtemp(prefix="fumarole-spark-"))
    log_file = folder / "spark.log"
    with told(log_file):
        try:
            with waiting("starting Spark"):
                spark = session(f"fumarole {name}", spark_options.master, settings, log_file)
            with _stopped(spark):
                yield spark
        except FAILURES:
            raise  # keep Spark's own output in a file, for details
        except BaseException:
            shutil.rmtree(folder)
            raise
    shutil.rmtree(folder)


@contextmanager
def _stopped(spark: SparkSession) -> Iterator[SparkSession]:
    try:
        yield spark
    finally:
        spark.stop()


def check_out(spark_options: SparkOptions, out: str) -> None:
    """Ends the command where Spark could not write there. Of a Connect server only the server knows."""
    if isinstance(spark_options, WarmSparkOptions) and spark_options.remote is not None:
        return
    with told():
        check_can_write(out, dict(_setting(text) for text in spark_options.conf or []))


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        fail(f"--conf takes KEY=VALUE, not {text!r}", MISUSED)
    return key, value


@contextmanager
def told(log_file: Path | None = None) -> Iterator[None]:
    """Errors become one line, and Ctrl-C ends quietly."""
    try:
        yield
    except QueryError as error:
        fail(error.caret(), MISUSED)
    except (PatternError, TimeError) as error:
        fail(str(error), MISUSED)
    except FumaroleError as error:
        fail(str(error))
    except OSError as error:
        fail(trouble_text(error))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except FAILURES as error:
        fail(f"Spark: {in_short(error)}" + (f" (more in {log_file})" if log_file else ""))
