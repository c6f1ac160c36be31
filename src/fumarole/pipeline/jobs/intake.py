"""What of an archive is new to a job, and fit to be read.

Recorders' files are known by the names of their seals. A compacted file stands for those that it replaces: if all of
them were taken in, so was it; if none was, it is taken in their stead; if some were, the others are, one by one, from
where they still lie; and where one of those cannot be read, or has been deleted, what is new in it is told by the
identity of each message.

A file that is not fit to be read is set aside, for ever. It was not taken in, and replaces nothing: its rows are taken
in from where else they lie, in the files that it replaced or in one that replaces it. A file that the file system does
not give is not set aside but looked at again the next time, because it may be whole.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace

from fumarole.pipeline.archive.places import Root
from fumarole.pipeline.archive.seals import Seal, SealedFile, read_seals
from fumarole.pipeline.archive.verifying import Problem, read_whole
from fumarole.pipeline.jobs.compacting import NAME
from fumarole.pipeline.jobs.log import Aside


@dataclass(slots=True)
class Intake:
    """The next files."""

    files: list[SealedFile] = field(default_factory=list)
    mixed: list[SealedFile] = field(default_factory=list)
    """Files in which some messages are new and some are not."""
    names: list[str] = field(default_factory=list)
    """Of seals that are taken in with them: theirs, and those that they replace."""
    aside: list[Aside] = field(default_factory=list)
    away: list[Aside] = field(default_factory=list)
    """Files that the file system does not give at the moment."""
    left: int = 0
    """Files that were too many for this time."""

    def __bool__(self) -> bool:
        """Is there something to be written down?"""
        return bool(self.names or self.aside)

    def without(self, unfit: Iterable[Aside]) -> Intake:
        """The same, with these set aside."""
        aside = [*self.aside, *unfit]
        out = {each.name for each in aside}
        stood_for = {name for file in (*self.files, *self.mixed) if file.name in out for name in file.replaces}
        return replace(
            self,
            files=[file for file in self.files if file.name not in out],
            mixed=[file for file in self.mixed if file.name not in out],
            names=[name for name in self.names if name not in out and name not in stood_for],
            aside=aside,
        )


class Arrivals:
    """Watches an archive. A seal that was read once is not read again: it never changes."""

    def __init__(self, root: Root, namespace: str) -> None:
        self._root = root
        self._namespace = namespace
        self._seals: dict[str, Seal] = {}

    def next(self, taken: Container[str], aside: Container[str], most_rows: int) -> Intake:
        """New files, of messages at most so many rows, but at least one file; of changes all."""
        self._seals = dict(read_seals(self._root, self._namespace, known=self._seals))
        intake = Intake()
        rows = 0
        for name, seal in self._new(taken, aside, intake):
            if seal.kind == "messages" and rows and rows + seal.rows > most_rows:
                intake.left += 1
                continue
            if self._fit(name, seal, intake):
                rows += seal.rows if seal.kind == "messages" else 0
                intake.files.append(self._file(seal))
        return intake

    def unreadable(self, files: Iterable[SealedFile]) -> list[Aside]:
        """Those of the files that are not whole, though they were when they were taken in.

        Not those that the file system does not give at the moment: to set them aside would be for ever.
        """
        looks = ((file.name, read_whole(self._root, self._namespace, file)) for file in files)
        return [
            Aside(name=name, reason=found.text)
            for name, found in looks
            if isinstance(found, Problem) and found.fault != "unreadable"
        ]

    def changes(self, known: Container[str], unfit: Container[str]) -> list[SealedFile]:
        """All files of changes in force in which something is known to the job, but for those that cannot be read.

        What is new in them does no harm: it held at its time, also before the job took it in.
        """
        return [
            self._file(seal)
            for name, seal in self._in_force(unfit)
            if seal.kind == "changes" and any(each in known for each in self._stands_for(name, seal))
        ]

    def _in_force(self, aside: Container[str]) -> list[tuple[str, Seal]]:
        """The seals that neither are set aside nor replaced by one that is not."""
        fit = [(name, seal) for name, seal in self._seals.items() if name not in aside]
        replaced = {name for _, seal in fit for name in seal.replaces}
        return [(name, seal) for name, seal in fit if name not in replaced]

    def _new(self, taken: Container[str], aside: Container[str], intake: Intake) -> list[tuple[str, Seal]]:
        found: list[tuple[str, Seal]] = []
        for name, seal in self._in_force(aside):
            inside = self._stands_for(name, seal)
            unknown = [each for each in inside if each not in taken]
            if not unknown:
                continue
            if len(unknown) == len(inside):
                found.append((name, seal))
            elif (rest := self._still_there(unknown, aside)) is not None:
                found += rest
            elif self._fit(name, seal, intake):
                intake.mixed.append(self._file(seal))
        return sorted(found, key=lambda one: (one[1].kind, one[1].epoch, one[1].first, one[0]))

    def _fit(self, name: str, seal: Seal, intake: Intake) -> bool:
        """Is the file what was sealed, to the last bit? Then it is taken in; otherwise it is set aside, or waits."""
        found = read_whole(self._root, self._namespace, seal)
        if isinstance(found, Problem):
            kept = intake.away if found.fault == "unreadable" else intake.aside
            kept.append(Aside(name=name, reason=found.text))
            return False
        intake.names += [name, *seal.replaces]
        return True

    def _still_there(self, names: Iterable[str], aside: Container[str]) -> list[tuple[str, Seal]] | None:
        """Replaced files, while they are whole; None: one of them is not, or has been deleted."""
        found = []
        for name in names:
            seal = self._seals.get(name)
            if seal is None or name in aside or isinstance(read_whole(self._root, self._namespace, seal), Problem):
                return None
            found.append((name, seal))
        return found

    @staticmethod
    def _stands_for(name: str, seal: Seal) -> list[str]:
        """The recorders' files whose rows it has: itself, or those that its seal names beside compacted ones."""
        return [each for each in seal.replaces if not each.startswith(NAME)] or [name]

    def _file(self, seal: Seal) -> SealedFile:
        return SealedFile.of(seal, self._root, self._namespace)
