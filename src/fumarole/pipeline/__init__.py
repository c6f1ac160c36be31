"""The data pipeline: messages captured into an archive of Parquet, played back, and read and written by Spark.

It needs more packages than the broker: `pip install 'fumarole[pipeline]'`. What is offered here is loaded when it is
first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fumarole.pipeline.live.source import register

__all__ = ["register"]


def __getattr__(name: str) -> Any:
    if name == "register":
        from fumarole.pipeline.live.source import register

        return register
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
