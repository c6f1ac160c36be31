"""The archive: what is in its files, where they lie, and which of them are in force. pyarrow alone, no Spark."""

import sys
from types import ModuleType
from typing import Any

from fumarole.core.packages import need
from fumarole.pipeline.archive.places import Root, open_root
from fumarole.pipeline.archive.schema import CHANGES, MESSAGES, VERSION
from fumarole.pipeline.archive.seals import SealedFile, namespaces, sealed
from fumarole.pipeline.archive.writing import FileWriter, write_rows

__all__ = [
    "CHANGES",
    "MESSAGES",
    "VERSION",
    "FileWriter",
    "Root",
    "SealedFile",
    "namespaces",
    "open_root",
    "sealed",
    "write_rows",
]


class _Archive(ModuleType):
    """`pipeline.archive` is this folder, and what people call to read an archive with Spark."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        need("pipeline", "pyspark")
        from fumarole.pipeline.reading import archive

        return archive(*arguments, **options)


sys.modules[__name__].__class__ = _Archive
