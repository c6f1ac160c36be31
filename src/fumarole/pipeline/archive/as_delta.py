"""The archive as a Delta table: a log over the files that are sealed (P10). Nothing is copied.

    archive/default/_delta_log/…    which files of messages are in force, as Delta writes it

The seals decide what the archive is. The log follows them when it is published, and can be deleted and made again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa

from fumarole.core.packages import need
from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.archive.schema import MESSAGES
from fumarole.pipeline.archive.seals import check_namespace, in_force
from fumarole.pipeline.delta import Published

PUBLISHER: Final = "fumarole publish"


class Changed(NamedTuple):
    """What a publication changed: files that were added and removed."""

    added: int
    removed: int


def publish(root: Root, namespace: str = "default") -> Changed:
    """Makes the Delta table of a namespace what its seals say. Raises ArchiveError."""
    need("pipeline", "deltalake")
    check_namespace(root, namespace)
    table = Published(root, namespace, _schema(), ("date", "hour"), "Messages as they were recorded.")
    want = {file.path for file in in_force(root, namespace) if file.kind == "messages"}
    have = table.files()
    add, remove = sorted(want - have), sorted(have - want)
    if add or remove:
        table.commit(PUBLISHER, (table.version_of(PUBLISHER) or 0) + 1, add, remove)
    return Changed(len(add), len(remove))


def _schema() -> str:
    """Of messages, with the columns by which their files are laid out."""
    from deltalake import Schema

    layout = [pa.field("date", pa.date32()), pa.field("hour", pa.int32())]  # null: of several hours
    fields = [*(field.with_nullable(True) for field in MESSAGES), *layout]
    return str(Schema.from_arrow(pa.schema(fields)).to_json())
