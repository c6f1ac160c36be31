"""What of an archive is new to a job, and fit to be read.

Files are known by the names of their seals. A compacted file stands for those that it replaces: if all of them were
taken in, so was it; if none was, it is taken in their stead; if some were, the others are, one by one, from where they
still lie; and where they have been deleted, what is new in it is told by the identity of each message.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.parquet as pq

from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.archive.seals import Seal, SealedFile, read_seals
from fumarole.pipeline.archive.verifying import problem_of
from fumarole.pipeline.jobs.compacting import NAME
from fumarole.pipeline.jobs.log import Aside


@dataclass(slots=True)
class Intake:
    """The next files."""

    files: list[SealedFile] = field(default_factory=list)
    mixed: list[SealedFile] = field(default_factory=list)
    """Files in which some messages are new and some are not."""
    names: list[str] = field(default_factory=list)
    """Of seals that are taken in with them: theirs, those that they replace, those that say nothing new."""
    aside: list[Aside] = field(default_factory=list)
    left: int = 0
    """Files that were too many for this time."""

    def without(self, unfit: Iterable[Aside]) -> Intake:
        """The same, with these set aside."""
        aside = [*self.aside, *unfit]
        names = {each.name for each in aside}
        return replace(
            self,
            files=[file for file in self.files if file.name not in names],
            mixed=[file for file in self.mixed if file.name not in names],
            aside=aside,
        )


class Arrivals:
    """Watches an archive. A seal that was read once is not read again: it never changes."""

    def __init__(self, root: Root, namespace: str) -> None:
        self._root = root
        self._namespace = namespace
        self._seals: dict[str, Seal] = {}

    def next(self, taken: Container[str], most_rows: int) -> Intake:
        """New files, of messages at most so many rows, but at least one file; of changes all."""
        self._seals.update(read_seals(self._root, self._namespace, known=self._seals))
        intake = Intake()
        rows = 0
        for name, seal in self._new(taken, intake):
            if seal.kind == "messages" and rows and rows + seal.rows > most_rows:
                intake.left += 1
                continue
            intake.names += [name, *seal.replaces]
            if self._fit(name, seal, intake):
                rows += seal.rows if seal.kind == "messages" else 0
                intake.files.append(self._file(seal))
        return intake

    def unreadable(self, files: Iterable[SealedFile]) -> list[Aside]:
        """Those of the files that have a fault somewhere inside, where a look at their ends does not find it."""
        found = []
        for file in files:
            try:
                with pq.ParquetFile(self._root.at(self._namespace, file.path), filesystem=self._root.system) as whole:
                    for _ in whole.iter_batches():
                        pass
            except (pa.ArrowException, OSError) as wrong:
                found.append(
                    Aside(name=file.name, reason=f"it cannot be read to its end ({str(wrong).splitlines()[0]})")
                )
        return found

    def changes(self, known: Container[str], aside: Container[str]) -> list[SealedFile]:
        """All files of changes in force that are known to the job and fit to be read."""
        replaced = {name for seal in self._seals.values() for name in seal.replaces}
        return [
            self._file(seal)
            for name, seal in self._seals.items()
            if seal.kind == "changes" and name in known and name not in replaced and name not in aside
        ]

    def _new(self, taken: Container[str], intake: Intake) -> list[tuple[str, Seal]]:
        replaced = {name for seal in self._seals.values() for name in seal.replaces}
        found: list[tuple[str, Seal]] = []
        for name, seal in self._seals.items():
            if name in taken or name in replaced:
                continue
            inside = self._replaced(seal)
            known = [each for each in inside if each in taken]
            if inside and len(known) == len(inside):
                intake.names.append(name)
            elif known and (rest := self._still_there(each for each in inside if each not in taken)) is not None:
                intake.names.append(name)
                found += rest
            elif known:
                intake.names += [name, *inside]
                if self._fit(name, seal, intake):
                    intake.mixed.append(self._file(seal))
            else:
                found.append((name, seal))
        return sorted(found, key=lambda one: (one[1].kind, one[1].epoch, one[1].first, one[0]))

    def _fit(self, name: str, seal: Seal, intake: Intake) -> bool:
        """Can the file be read, as far as its ends tell? Otherwise it is set aside."""
        problem = problem_of(self._root, self._namespace, seal)
        if problem is not None:
            intake.aside.append(Aside(name=name, reason=problem.text))
        return problem is None

    def _still_there(self, names: Iterable[str]) -> list[tuple[str, Seal]] | None:
        """Replaced files, while they have not been deleted; None: one of them has."""
        seals = [(name, self._seals.get(name)) for name in names]
        found = [(name, seal) for name, seal in seals if seal is not None]
        there = all(self._root.exists(self._namespace, seal.path) for _, seal in found)
        return found if there and len(found) == len(seals) else None

    @staticmethod
    def _replaced(seal: Seal) -> list[str]:
        """The recorders' files that a file stands for: a seal names them all, and the compacted ones between."""
        return [name for name in seal.replaces if not name.startswith(NAME)]

    def _file(self, seal: Seal) -> SealedFile:
        return SealedFile.of(seal, self._root, self._namespace)
