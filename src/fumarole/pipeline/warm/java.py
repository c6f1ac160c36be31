"""Java for a warm session: started once by the resident, attached to by each of its children."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from fumarole.pipeline.jobs.spark import LOCAL, SETTINGS, groups_in_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PORT: Final = "PYSPARK_GATEWAY_PORT"
SECRET: Final = "PYSPARK_GATEWAY_SECRET"  # noqa: S105 - the name of a variable
BESIDE_HEAP: Final = 512
"""MiB that Python and Java take beside Java's heap."""
LEAST_HEAP: Final = 512
CANCEL_SECONDS: Final = 3.0


def heap_megabytes(memory: int) -> int:
    """Java's heap on a machine with so many bytes: the whole session stays below an eighth of it (P9)."""
    return max(LEAST_HEAP, (memory >> 20) // 8 - BESIDE_HEAP)


def warm_settings(master: str, own: Mapping[str, str]) -> dict[str, str]:
    """What Spark is started with: as a command that is started alone, in less memory."""
    heap = heap_megabytes(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    local = {
        **LOCAL,
        "spark.driver.memory": f"{heap}m",
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str(groups_in_memory(heap << 20)),
    }
    chosen = {**SETTINGS, **(local if master.startswith("local") else {}), **own}
    return {**chosen, "spark.master": master, "spark.app.name": "fumarole warm session"}


class Java:
    """The process that runs Spark. It ends when its stdin is closed."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Starts it. Raises PySparkException."""
        from pyspark.conf import SparkConf
        from pyspark.java_gateway import launch_gateway

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf = SparkConf(loadDefaults=False)
        for key, value in settings.items():
            conf.set(key, value)
        # Kept, and never used again: what is inside belongs to this process, not to its children.
        self._gateway: Any = launch_gateway(conf)  # type: ignore[no-untyped-call]

    @property
    def address(self) -> dict[str, str]:
        """By which PySpark finds it, as environment."""
        parameters = self._gateway.java_parameters
        return {PORT: str(parameters.port), SECRET: parameters.auth_token}

    @property
    def pid(self) -> int:
        return int(self._gateway.proc.pid)

    @property
    def is_alive(self) -> bool:
        return self._gateway.proc.poll() is None

    def stop(self, seconds: float = 10.0) -> None:
        """Ends it, and the Python workers that it started."""
        self._gateway.proc.stdin.close()
        try:
            self._gateway.proc.wait(seconds)
        except subprocess.TimeoutExpired:
            self._gateway.proc.kill()
            self._gateway.proc.wait()  # so that none is left when the session has given its lock back


def start(master: str, settings: Mapping[str, str]) -> Java:
    """Java, started while this process imports what commands need. It has one thread afterwards, as a fork wants it."""
    loading = threading.Thread(target=_load)
    loading.start()
    java = Java(warm_settings(master, settings))
    loading.join()
    return java


def _load() -> None:
    import pandas  # type: ignore[import-untyped]  # noqa: F401

    import fumarole.pipeline.jobs.batch
    import fumarole.pipeline.views  # noqa: F401


def warm_up() -> int:
    """In a child: the context that all children share, and a first plan."""
    attach("start").range(1).collect()
    return 0


def warn_on_stderr() -> None:
    """Only warnings of this package are shown, as by a command alone: py4j logs at the root that it was interrupted."""
    logging.root.addHandler(logging.NullHandler())
    logging.getLogger("fumarole").addHandler(logging.StreamHandler())


def attach(name: str) -> SparkSession:
    """A session of this child's own in the Java of its resident. A signal cancels this child's jobs, and no others'."""
    from pyspark import SparkContext
    from pyspark.conf import SparkConf
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    warn_on_stderr()
    # It finds Java by the environment.
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    jvm = gateway.jvm
    context = jvm.JavaSparkContext(getattr(jvm, "org.apache.spark.SparkContext").getOrCreate(jvm.SparkConf()))
    attached = SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.sc().conf()))
    group = f"fumarole-{os.getpid()}"
    attached.setJobGroup(group, name)

    def cancelled(_number: int, _frame: FrameType | None) -> NoReturn:
        # The connection of this thread waits for an answer; another thread has one of its own.
        cancelling = threading.Thread(target=attached.cancelJobGroup, args=(group,), daemon=True)
        cancelling.start()
        cancelling.join(CANCEL_SECONDS)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, cancelled)
    session: SparkSession = SparkSession(attached).newSession()
    # What PySpark takes for the session of this process: frames are made in it too.
    SparkSession._instantiatedSession = session
    return session
